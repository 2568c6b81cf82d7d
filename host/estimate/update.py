"""The update unit in time: chunks that are read, computed and written at once."""

from collections.abc import Callable
from dataclasses import astuple
from functools import lru_cache
from math import ceil
from typing import Any

from ...rtl.update.adam_lane import FOLD, AdamLane
from ...rtl.update.adam_rate import AdamRate
from ...rtl.update.arrays import MOMENT_BYTES, SLOTS, array_bytes
from ...rtl.update.chunks import chunk_weights
from ...rtl.update.folded_sgd_lane import lane_type
from ...spec.commands import Command, Opcode, Source
from ...spec.config import Config
from ...spec.operands import keeps_momentum
from .clock import Clock, Process, Queue, Tokens
from .dma import ANSWER_CYCLES
from .memory import REQUEST_CYCLES, Flow, Memory
from .traffic import Table, Traffic, traffic

__all__ = ["Update"]

BEGIN_CYCLES = 16
"""From a command's arrival to its first request: the checks of its arrays against regions (control.py, check.py)."""
ADAM_BEGIN_CYCLES = 4 + AdamRate.LATENCY - 2 * (40 - 21)
"""ADAM's before those: a fifth array's check, and the rate. Its latency has 40 halvings of a product; those of rates
around 0.001 are 20 to 23 (adam_rate.py)."""
FEED_CYCLES = 8
"""From a beat at the port to its weight in a lane, and from there to a beat again (reader.py, writer.py)."""
WINDOW_CYCLES = 6
"""From a burst's beats at the port to those of the predictor memory, and back to the port (predictor_window.py)."""
END_CYCLES = 12
"""From the last answer to the command's end: the writer's idle, results, DONE (control.py, writer.py)."""
WRITE_CYCLES = 7.5
"""Between the beats of two written arrays, on average: the writer's states, the walk, the arbiter's grant."""
AGAIN_CYCLES = 3
"""Between the beats of two bursts of an array: REQUEST, and the FIFO's first word (writer.py)."""
MOST_PIECES = 512
"""Pieces that a command is cut into at most: longer ones are several chunks each."""


class Update:
    """The unit as three processes; ``done`` is called as each command is complete."""

    def __init__(
        self, clock: Clock, config: Config, queue: Queue, memory: Memory, table: Table, window: range,
        done: Callable[[], None],
    ):  # fmt: skip
        self._clock, self._config, self._queue, self._memory, self._table = clock, config, queue, memory, table
        self._window, self._done = window, done
        self._read, self._made = Queue(clock, SLOTS), Queue(clock, SLOTS)
        self._written = Tokens(clock)
        self._latency = lane_type(config).LATENCY
        self._block = max(config.beat_bytes * config.max_burst_beats, config.dram.burst_bytes)
        self._counted = lru_cache(1 << 16)(self._moved)
        self.busy = self.begun = self.ended = 0
        for process in (self._run(), self._lanes(), self._write()):
            clock.start(process)

    def _run(self) -> Process:
        """Take commands, and read their arrays."""
        config, chunk = self._config, chunk_weights(self._config)
        while True:
            yield self._queue.there
            command: Command = self._queue.drop()
            began = self._clock.now
            self.begun += 1
            adam = command.opcode == Opcode.ADAM
            yield BEGIN_CYCLES + adam * ADAM_BEGIN_CYCLES
            arrays, changed = _arrays(command, config)
            read, written = self._side(command, arrays, write=False), self._side(command, changed, write=True)
            mixed = {way == "chip" for (_, _, way), *_ in read} == {True, False}
            pieces = -(-command.count // chunk)
            size = chunk * -(-pieces // MOST_PIECES)
            yield self._memory.latency
            left = command.count
            while left:
                count = min(size, left)
                left -= count
                yield self._read.room
                since = self._clock.now
                if mixed:  # bursts of a chunk wait for those at the port, and these for them; others stand after them
                    self._memory.hold(1)
                    yield -(-count // chunk) * (WINDOW_CYCLES + self._memory.latency - REQUEST_CYCLES)
                    self._memory.hold(-1)
                done = command.count - left - count
                yield self._flow(read, done, count, write=False)
                self._read.put((command, done, count, written, self._whole(since, count, arrays)))
            yield self._written if command.count else 0
            yield END_CYCLES
            self.busy += self._clock.now - began
            self.ended += 1
            self._done()

    def _whole(self, since: int, count: int, arrays: dict[str, int]) -> tuple[int, int]:
        """When the first weights of a piece's first chunk and of its last one are complete, if all are read now.

        They are as a chunk's last array begins to come.
        """
        each = (self._clock.now - since) / -(-count // chunk_weights(self._config))
        last = each * [*arrays.values()][-1] / sum(arrays.values())
        return round(since + each - last), round(self._clock.now - last)

    def _lanes(self) -> Process:
        """Compute pieces, ``update_lanes`` weights at once, or one of ADAM's in several."""
        config, ended = self._config, 0
        while True:
            yield self._read.there
            command, done, count, written, (first, last) = self._read.first()
            adam = command.opcode == Opcode.ADAM
            cycles = FOLD if adam else config.update_cycles / config.update_lanes
            first, last = first + FEED_CYCLES, last + FEED_CYCLES
            until = max(max(first, ended) + count * cycles, last + min(count, chunk_weights(config)) * cycles)
            yield max(1, ceil(until) - self._clock.now)
            self._read.drop()
            yield self._made.room
            ended = self._clock.now
            latency = AdamLane.LATENCY - FOLD // 2 if adam else self._latency  # waits half a fold, ends a fold earlier
            self._made.put((command, done, count, written), latency)

    def _write(self) -> Process:
        """Write pieces; a command's last one gives ``written`` when it is answered."""
        left: dict[int, int] = {}  # weights by command
        while True:
            yield self._made.there
            command, done, count, written = self._made.first()
            flow = self._flow(written, done, count, write=True)
            yield flow
            self._made.drop()
            left[id(command)] = left.get(id(command), command.count) - count
            if not left[id(command)]:
                del left[id(command)]
                self._written.give_at(self._clock.now + ANSWER_CYCLES + round(flow.bus * flow.weight))

    def _side(self, command: Command, arrays: dict[str, int], write: bool) -> "_Side":
        """The arrays that a command reads, or those that it writes."""
        name, way = command.opcode.name.lower(), "write" if write else "read"
        places = {array: getattr(command, f"{array}_addr") for array in arrays}
        return [
            ((name, array, "chip" if places[array] in self._window else way), places[array], size)
            for array, size in arrays.items()
        ]

    def _moved(self, places: tuple[tuple[int, int], ...], count: int) -> Traffic:
        """The traffic of ``count`` elements of arrays, chunk by chunk, by place in a block and bytes of an element."""
        config, chunk = self._config, chunk_weights(self._config)
        found = [
            traffic(config, {
                "dram": place + begin * size, "d0": chunk * size, "length": weights * size // config.operand_bytes,
                "n0": times, "n1": 1, "n2": 1,
            })
            for place, size in places
            for begin, weights, times in ((0, chunk, count // chunk), (count // chunk * chunk, count % chunk, 1))
        ]  # fmt: skip
        return Traffic(*(sum(each) for each in zip(*map(astuple, found), strict=True)))

    def _flow(self, side: "_Side", first: int, count: int, write: bool) -> Flow:
        """The flow of a piece's ``count`` elements from the ``first`` on, whose bytes are counted."""
        beat = self._config.beat_bytes
        for owner, _, size in side:
            self._table[owner] += count * size if write else -(-count * size // beat) * beat
        moved = self._counted(tuple(((place + first * size) % self._block, size) for _, place, size in side), count)
        if write:  # its pauses are spread over it, as the part has room for its bursts
            pauses = moved.segments * WRITE_CYCLES + (moved.bursts - moved.segments) * AGAIN_CYCLES
            return Flow(self._memory, moved, write, cap=moved.beats / (moved.beats + pauses), single=True)
        window = SLOTS * moved.beats // -(-count // chunk_weights(self._config))
        return Flow(self._memory, moved, write, window=window)


_Side = list[tuple[tuple[str, str, str], int, int]]
"""Arrays: whose bytes they are in the table, their addresses, bytes of an element."""


def _arrays(command: Command, config: Config) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of an element of each array that a command reads, and of those that it writes; by operand."""
    names: Any = {"g": "a", "hi": "b", "lo": "c", "v": "out"}
    read = {names[name]: size for name, size in array_bytes(config).items()}
    written = {name: size for name, size in read.items() if name != "a"}
    if command.opcode == Opcode.ADAM:
        return {**read, "d": MOMENT_BYTES}, {**written, "d": MOMENT_BYTES}
    if command.quality:
        read["d"] = config.operand_bytes
    if command.source == Source.ZERO:
        del read["a"]
    if keeps_momentum(command):
        del read["out"], written["out"]
    return read, written
