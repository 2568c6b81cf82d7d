"""The update unit in time: chunks that are read, computed and written at once."""

from collections.abc import Callable
from typing import Any

from ...rtl.update.adam_lane import FOLD, AdamLane
from ...rtl.update.adam_rate import AdamRate
from ...rtl.update.arrays import MOMENT_BYTES, SLOTS, array_bytes
from ...rtl.update.chunks import chunk_weights
from ...rtl.update.folded_sgd_lane import lane_type
from ...spec.commands import Command, Opcode, Source
from ...spec.config import Config
from .clock import Clock, Process, Queue, Tokens
from .memory import Flow, Memory
from .traffic import Table, Traffic

__all__ = ["Update"]

BEGIN_CYCLES = 16
"""From a command's arrival to its first request: the checks of its arrays against regions (control.py, check.py)."""
END_CYCLES = 12
"""From the last answer to the command's end: the writer's idle, results, DONE (control.py, writer.py)."""
WRITE_CYCLES = 7
"""Between the beats of two written bursts: states of the writer, the arbiter's grant (writer.py)."""
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
            yield BEGIN_CYCLES + adam * AdamRate.LATENCY
            read, written = _arrays(command, config)
            pieces = -(-command.count // chunk)
            size = chunk * -(-pieces // MOST_PIECES)
            yield self._memory.latency
            left = command.count
            while left:
                count = min(size, left)
                left -= count
                yield self._read.room
                since = self._clock.now
                yield self._flow(command, read, count, write=False)
                chunks = -(-count // chunk)
                last = (self._clock.now - since) * [*read.values()][-1] // (sum(read.values()) * chunks)
                self._read.put((command, count, written, adam, self._clock.now - last))
            yield self._written if command.count else 0
            yield END_CYCLES
            self.busy += self._clock.now - began
            self.ended += 1
            self._done()

    def _lanes(self) -> Process:
        """Compute pieces, ``update_lanes`` weights at once, or one of ADAM's in several."""
        ended = 0
        while True:
            yield self._read.there
            command, count, written, adam, begun = self._read.first()
            cycles = count * FOLD if adam else -(-count // self._config.update_lanes) * self._config.update_cycles
            yield max(1, max(begun, ended) + cycles - self._clock.now)
            ended = self._clock.now
            self._read.drop()
            yield self._made.room
            self._made.put((command, count, written), AdamLane.LATENCY if adam else self._latency)

    def _write(self) -> Process:
        """Write pieces; a command's last one gives ``written`` when it is answered."""
        left: dict[int, int] = {}  # weights by command
        while True:
            yield self._made.there
            command, count, written = self._made.first()
            bursts = self._moved(written, count).bursts
            yield bursts * WRITE_CYCLES
            yield self._flow(command, written, count, write=True)
            self._made.drop()
            left[id(command)] = left.get(id(command), command.count) - count
            if not left[id(command)]:
                del left[id(command)]
                self._written.give_at(self._clock.now + WRITE_CYCLES)

    def _moved(self, arrays: dict[str, int], count: int) -> Traffic:
        """The traffic of ``count`` elements of each array, chunk by chunk; the arrays begin at a beat."""
        config, chunk = self._config, chunk_weights(self._config)
        beat, granule = config.beat_bytes, max(config.beat_bytes, config.dram.burst_bytes)
        chunks = [(chunk, count // chunk), (count % chunk, int(count % chunk > 0))]
        runs = [(weights * size, times) for weights, times in chunks for size in arrays.values()]

        def pieces(step: int) -> int:
            return sum(-(-n_bytes // step) * times for n_bytes, times in runs)

        n_bytes = count * sum(arrays.values())
        return Traffic(pieces(n_bytes + 1), pieces(beat * config.max_burst_beats), pieces(beat), pieces(granule), n_bytes)

    def _flow(self, command: Command, arrays: dict[str, int], count: int, write: bool) -> Flow:
        """The flow of a piece, whose bytes are counted."""
        name, beat = command.opcode.name.lower(), self._config.beat_bytes
        for array, size in arrays.items():
            way = "write" if write else "read"
            n_bytes = count * size if write else -(-count * size // beat) * beat
            self._table[name, array, "chip" if getattr(command, f"{array}_addr") in self._window else way] += n_bytes
        window = 0 if write else SLOTS * self._moved(arrays, min(count, chunk_weights(self._config))).beats
        return Flow(self._memory, self._moved(arrays, count), write, window=window)


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
    return read, written
