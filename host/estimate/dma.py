"""Fill and store in time, and the bytes that they move."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...rtl.dma.fill import Fill as Hardware
from ...spec.config import Config
from ...spec.microcode.descriptors import Target
from .clock import Clock, Process, Queue, Tokens
from .memory import Flow, Memory
from .traffic import Places, Table, Traffic, traffic

__all__ = ["Fill", "Moves", "Store"]

WALK_CYCLES = 4
"""From a descriptor's token to its first burst's request: the register of ``taken``, segments, skid (fill.py)."""
AHEAD = 2
"""Descriptors that wait between fill's requests and its data side (fill.py)."""
SETUP_CYCLES = 5
"""States of the data side before a descriptor's beats can be taken, and after the last one (fill.py)."""
STORE_SETUP, STORE_END = 8, 4
"""A store's way through its walk and the scratchpad to the port, and its states at the end (store.py)."""
ANSWER_CYCLES = 8
"""From a write's last beat to its answer at the engine, without the part's bus (arbiters.py, store.py)."""


@dataclass
class Moves:
    """The ways of a core's bytes: the port, the predictor memory, and the table of bytes.

    ``narrow``: operands of the core's own port in one of the memory's.
    """

    config: Config
    memory: Memory
    table: Table
    narrow: int = 1

    @property
    def block(self) -> int:
        """Bytes of a block of memory within which a descriptor's traffic depends on its place."""
        config = self.memory.config
        return max(config.beat_bytes * config.max_burst_beats, config.dram.burst_bytes)

    def flow(self, d: Mapping[str, int], write: bool, owner: tuple[str, Places]) -> tuple[Flow, Traffic]:
        """The flow of a descriptor, whose bytes are counted."""
        port = self.count(self.table, d, write, owner)
        moved = traffic(self.config, d).beats if self.narrow > 1 else 0
        cap = port.beats / moved if moved else 1.0
        return Flow(self.memory, port, write, d.get("dram", 0) in owner[1].chip, cap), port

    def count(self, table: Table, d: Mapping[str, int], write: bool, owner: tuple[str, Places]) -> Traffic:
        """Count a descriptor's bytes in a table; returns its traffic at the memory's port."""
        port = traffic(self.memory.config if self.narrow > 1 else self.config, d)
        counted = port.n_bytes if write else port.beats * self.memory.config.beat_bytes
        if counted:
            place, (name, places) = d.get("dram", 0), owner
            way = "chip" if place in places.chip else "write" if write else "read"
            table[name, places.owner(place), way] += counted
        return port


class Fill:
    """The engine as two processes: requests run ahead of the data."""

    def __init__(self, clock: Clock, config: Config, queue: Queue, moves: Moves, tokens: Mapping[str, Tokens]):
        self._clock, self._config, self._queue, self._moves, self._tokens = clock, config, queue, moves, tokens
        self._asked = Queue(clock, AHEAD)
        clock.start(self._requests())
        clock.start(self._data())

    def _requests(self) -> Process:
        while True:
            yield self._queue.there
            owner, d = self._queue.first()
            if d.get("open"):
                yield self._tokens[f"{_pad(d)}_free"]
            yield 2
            self._queue.drop()
            flow, moved = self._moves.flow(d, False, owner)
            yield self._asked.room
            self._asked.put((d, flow, self._clock.now + WALK_CYCLES))
            self._moves.memory.asked += round(flow.left)
            yield max(moved.bursts, 1) if moved.bursts < 16 else 16  # the rest pass as beats come

    def _data(self) -> Process:
        while True:
            yield self._asked.there
            d, flow, asked = self._asked.drop()
            memory, shared = self._moves.memory, self._moves.narrow == 1
            taken = self._clock.now + SETUP_CYCLES + -(-d.get("clear", 0) // self._config.banks)
            if flow.left:
                yield asked + memory.latency - self._clock.now
                memory.hold(shared)  # beats of other engines stand after the first one, unless buffers take it
                yield taken - self._clock.now
                memory.hold(-shared)
                memory.asked -= round(flow.left)
                yield flow
            else:
                yield taken - self._clock.now
            if d.get("ready"):
                pad = _pad(d)
                landed = self._tokens["c_ready" if pad == "c" else f"{pad}_full"]
                landed.give_at(self._clock.now + Hardware.LANDING_CYCLES)


def _pad(d: Mapping[str, int]) -> str:
    return {Target.A: "a", Target.B: "b"}.get(Target(d.get("target", 0)), "c")


class Store:
    """The engine as a process; ``done`` is called when a command's writes are answered."""

    def __init__(self, clock: Clock, config: Config, queue: Queue, moves: Moves, tokens: Mapping[str, Tokens], done):
        self._clock, self._config, self._queue, self._moves, self._tokens = clock, config, queue, moves, tokens
        self._done = done
        clock.start(self._run())

    def _run(self) -> Process:
        clock = self._clock
        while True:
            yield self._queue.there
            owner, d = self._queue.first()
            if d.get("begin"):
                yield self._tokens["drained"]
            yield 1
            self._queue.drop()
            bus = 0.0
            if d.get("dry"):
                yield 3
            else:
                flow, _ = self._moves.flow(d, True, owner)
                yield STORE_SETUP
                bus = flow.bus * flow.weight
                yield flow
                yield STORE_END
            if d.get("close"):
                self._tokens["c_free"].give()
            if d.get("done"):
                clock.call(clock.now + ANSWER_CYCLES + round(bus), self._done)
