"""The compute engine in time: passes of the array, windows of the pool unit, batch norm's unit."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...rtl.compute.accumulator import Accumulator
from ...rtl.compute.im2col import Im2col
from ...spec.config import Config
from ...spec.dropout import BLOCK
from ...spec.microcode.descriptors import NormTask, VectorMode
from ...spec.norm import SUM_DIGITS
from ...spec.opcodes import Opcode
from ..compiler.norm_tiling import HELD_CYCLES, table_cycles
from .clock import Clock, Process, Queue, Tokens

__all__ = ["Compute", "Passes", "passes", "vector_cycles"]

SHOWN_CYCLES = 2
"""A descriptor is shown to its units a cycle after it has come, and offered to the fetchers after that (compute.py)."""
FETCH_CYCLES = Im2col.latency + 4
"""From the start of a walk to the feeder's vector: odometer, scratchpad, skid, registers (im2col.py, feeder.py)."""
PAUSE_CYCLES = 3
"""Between two tiles whose operands are there (feeder.py, im2col.py)."""
POOL_PAUSE, NORM_PAUSE = 18, 10
"""Before a job of the pool unit, which waits for the last one's results; before batch norm's (pool.py, norm.py)."""
POOL_LATENCY = 8
"""From a window's last tap to its result (pool.py)."""
TABLES_BY_TASK = {
    NormTask.BATCH: Opcode.NORM_CONSTANTS, NormTask.RUNNING: Opcode.NORM_RUNNING,
    NormTask.BACKWARD: Opcode.NORM_BACKWARD,
}  # fmt: skip
DRAW_CYCLES = BLOCK + 1
"""A block of channels of a pixel in dropout's draw (dropout.py)."""


@dataclass(frozen=True)
class Passes:
    """A GEMM on the array: cycles from its first to its last vector, those with a vector, those of the last pass."""

    cycles: int
    active: int
    last: int


def passes(config: Config, d: Mapping[str, int]) -> Passes:
    """The passes of a GEMM's descriptor, one for each group of ``rows`` and each stationary tile of ``cols``.

    A pass lasts until the next tile is loaded, which begins a ``gap`` after the pass and takes a cycle a column.
    """
    gap = max(config.rows - 1, Accumulator.latency - 1)
    stream, held = (d["n_b"], d["n_a"]) if d.get("swap") else (d["n_a"], d["n_b"])
    groups, tiles = -(-d["n_k"] // config.rows), -(-held // config.cols)
    rest = held - (tiles - 1) * config.cols

    def before(columns: int) -> int:
        return max(stream, gap + columns)

    within = (tiles - 2) * before(config.cols) + before(rest) if tiles > 1 else 0
    between = before(config.cols if tiles > 1 else rest)
    return Passes(groups * within + (groups - 1) * between + stream, groups * tiles * stream, stream)


def vector_cycles(config: Config, d: Mapping[str, int]) -> int:
    """Cycles of a descriptor in the pool unit or batch norm's."""
    mode, groups, task = d["mode"], -(-d["n_k"] // config.rows), d.get("task", 0)
    positions = 1
    for level in range(6):
        positions *= max(1, d.get(f"n{level}", 0))
    if mode == VectorMode.DIGITS:
        return groups * d["n_b"] * (d["n_a"] + (2 * SUM_DIGITS if d.get("last") else 1))  # the digits leave alone
    if mode == VectorMode.DOT and d.get("task"):  # windows that share columns; a kernel is loaded, or sums leave alone
        again = d.get("ones", 0) * d["n_values"] + d["n1"] * (d["task"] - 1) if d.get("n_values") else d["n_a"]
        return groups * (positions + again)
    if mode == VectorMode.DOT:
        return groups * d["n_b"] * d["n_a"]
    if mode == VectorMode.SCALE:
        if task == NormTask.BACKWARD:
            return groups * d["n_a"]
        return d["n_a"] + groups * max(positions, d["n_a"] + HELD_CYCLES)
    if mode == VectorMode.TABLES:
        return groups * table_cycles(TABLES_BY_TASK[NormTask(task)], config)
    if d.get("momentum"):
        first, channels = d.get("b_stride", 0), d["n_b"]
        blocks = (first + channels - 1) // BLOCK - first // BLOCK + 1
        return max(positions, positions // d["n_a"] // -(-channels // config.rows) * blocks * DRAW_CYCLES)
    return positions * (2 if mode == VectorMode.MAX and d["n_a"] == 1 else 1)  # a window's index takes a cycle


class Compute:
    """The engine as a process. ``free`` and ``full``: tokens by buffer; ``vectors``: given with a job's last vector."""

    def __init__(
        self, clock: Clock, config: Config, queue: Queue, free: Mapping[str, Tokens], full: Mapping[str, Tokens]
    ):
        self._clock, self._config, self._queue, self._free, self._full = clock, config, queue, free, full
        self.vectors = Tokens(clock)
        self.macs = self.active = self.pooled = 0
        self.stalls = dict.fromkeys(("stall_a", "stall_b", "stall_drain", "stall_load"), 0)
        self._end = -PAUSE_CYCLES  # of the last descriptor's last vector
        self._gemm = True  # it was one
        self._swap = 0
        clock.start(self._run())

    def _run(self) -> Process:
        while True:
            shown = SHOWN_CYCLES + (yield self._queue.there)
            d = self._queue.first()
            gemm = d.get("mode", 0) == VectorMode.GEMM
            if not (gemm and self._gemm and d.get("swap", 0) == self._swap):  # the units are to be idle before
                yield self._end - self._clock.now
            yield from (self._array(d, shown) if gemm else self._pool(d, shown))
            self._gemm, self._swap = gemm, d.get("swap", 0)

    def _tiles(self, d: Mapping[str, int]) -> Process:
        """Take the tokens of the operands' tiles; returns the cycles in which they were given."""
        given = []
        for name in "ab":
            given.append((yield self._full[name]) if d.get(f"new_{name}") else 0)
        return given

    def _release(self, d: Mapping[str, int]) -> None:
        for name in "ab":
            if d.get(f"new_{name}"):
                self._free[name].give_at(self._clock.now + FETCH_CYCLES)

    def _array(self, d: Mapping[str, int], shown: int) -> Process:
        config, work = self._config, passes(self._config, d)
        tile_a, tile_b = yield from self._tiles(d)
        columns = min(config.cols, d["n_a"] if d.get("swap") else d["n_b"])
        ready = max(shown + config.rows, tile_a, tile_b) + FETCH_CYCLES + columns
        begin = max(ready, self._end + PAUSE_CYCLES)
        drained = 0
        yield begin - self._clock.now
        if d.get("first"):
            drained = yield self._free["acc"]
            begin = max(begin, drained + 2)
        self._account(max(self._end, shown), tile_a, tile_b, ready, drained, begin)
        self.stalls["stall_load"] += work.cycles - work.active
        self.active += work.active
        self.macs += d["n_k"] * d["n_a"] * d["n_b"]
        self._release(d)
        self._end = begin + work.cycles
        if d.get("last"):
            self._full["acc"].give_at(self._end + config.rows + Accumulator.latency)
        yield self._end - work.last - self._clock.now
        self._queue.drop()

    def _account(self, since: int, tile_a: int, tile_b: int, ready: int, drained: int, begin: int) -> None:
        """Count the cycles before a GEMM's first vector by what they waited for last."""
        for cause, until in (("a", tile_a), ("b", tile_b), ("load", ready), ("drain", drained), ("load", begin)):
            until = min(max(since, until), begin)
            self.stalls[f"stall_{cause}"] += until - since
            since = until

    def _pool(self, d: Mapping[str, int], shown: int) -> Process:
        config, work = self._config, vector_cycles(self._config, d)
        pause = NORM_PAUSE if d["mode"] in (VectorMode.SCALE, VectorMode.TABLES) else POOL_PAUSE
        tile_a, tile_b = yield from self._tiles(d)
        begin = max(max(shown + config.rows, tile_a, tile_b) + FETCH_CYCLES, self._end + pause)
        yield begin - self._clock.now
        self._release(d)
        self.pooled += work
        self._end = begin + work
        if d.get("last"):
            self.vectors.give_at(self._end + POOL_LATENCY)
        yield self._end - self._clock.now
        self._queue.drop()
