"""The compute engine in time: passes of the array, windows of the pool unit, batch norm's unit."""

from collections import Counter
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

__all__ = ["Compute", "Passes", "accumulator_words", "passes", "vector_cycles"]

SHOWN_CYCLES = 2
"""A descriptor is shown to its units a cycle after it has come, and offered to the fetchers after that (compute.py)."""
FETCH_CYCLES = Im2col.latency + 4
"""From the start of a walk to the feeder's vector: odometer, scratchpad, queue, registers (im2col.py, feeder.py)."""
FREE_CYCLES = Im2col.latency + 3
"""From a tile that a walk can start with to the token of the half before (im2col.py)."""
SLICE_LATENCY = 2
"""From a slice's last vector to its first element (transposer.py)."""
PAUSE_CYCLES = 3
"""Between two tiles whose operands are there (feeder.py, im2col.py)."""
POOL_PAUSE, NORM_PAUSE = 18, 10
"""Before a job of the pool unit, which waits for the last one's results; before batch norm's (pool.py, norm.py)."""
SLICE_PAUSE = 1
"""Between two results in the register between the pool unit and the drain, without batch norm (drain.py)."""
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

    A pass lasts until the next tile is loaded, which begins a cycle after the pass and takes a cycle a column.
    A row-stationary array has its own (see :mod:`.row_stationary`).
    """
    if "set_cycles" in d:
        return Passes(d["set_cycles"], d["set_cycles"], d["set_pass"])
    if config.output_stationary:
        return _blocks(config, d)
    stream, held = (d["n_b"], d["n_a"]) if d.get("swap") else (d["n_a"], d["n_b"])
    groups, tiles = -(-d["n_k"] // config.rows), -(-held // config.cols)
    rest = held - (tiles - 1) * config.cols

    def before(columns: int) -> int:
        return max(stream, columns + 1, Accumulator.latency)

    within = (tiles - 2) * before(config.cols) + before(rest) if tiles > 1 else 0
    between = before(config.cols if tiles > 1 else rest)
    return Passes(groups * within + (groups - 1) * between + stream, groups * tiles * stream, stream)


def _blocks(config: Config, d: Mapping[str, int]) -> Passes:
    """The blocks of sums of a GEMM's descriptor, as passes; the last is what follows the fetching of all operands.

    A block lasts as long as its products, or the loading of its slices, a cycle for each outer position of an operand.
    """
    n_k = d["n_k"]
    n_rows, n_cols = (d["n_b"], d["n_a"]) if d.get("swap") else (d["n_a"], d["n_b"])
    slices = -(-n_k // config.vector_lanes)
    rows, cols = divmod(n_rows, config.rows), divmod(n_cols, config.cols)
    each = Counter({(config.rows, config.cols): rows[0] * cols[0], (rows[1], config.cols): cols[0] * (rows[1] > 0)})
    each[config.rows, cols[1]] += rows[0] * (cols[1] > 0)
    each[rows[1], cols[1]] += rows[1] > 0 and cols[1] > 0
    cycles = sum(
        times * max(n_k, slices * max(block), max(block[0], Accumulator.latency)) for block, times in each.items()
    )
    return Passes(cycles, sum(each.values()) * n_k, min(n_k, 2 * config.vector_lanes))


def accumulator_words(config: Config, d: Mapping[str, int]) -> tuple[int, int]:
    """Words of the accumulator that a GEMM's descriptor makes the array write, and those read before, to be added to.

    A word holds ``cols`` sums. They are added to for each group of ``rows`` products, or once (output-stationary).
    """
    stream, held = (d["n_b"], d["n_a"]) if d.get("swap") else (d["n_a"], d["n_b"])
    words = stream * -(-held // config.cols)
    written = words if config.output_stationary else words * -(-d["n_k"] // config.rows)
    return written, written - words * d["first"]


def vector_cycles(config: Config, d: Mapping[str, int]) -> int:
    """Cycles of a descriptor in the pool unit or batch norm's."""
    mode, groups, task = d["mode"], -(-d["n_k"] // config.rows), d.get("task", 0)
    positions = 1
    for level in range(6):
        positions *= max(1, d.get(f"n{level}", 0))
    way = config.folds(config.rows) + SLICE_PAUSE * (not config.normalises)
    if mode == VectorMode.DIGITS:
        return groups * d["n_b"] * (d["n_a"] + (2 * SUM_DIGITS if d.get("last") else 1))  # the digits leave alone
    if mode == VectorMode.DOT and d.get("task"):  # windows that share columns; a kernel is loaded, or sums leave alone
        again = d.get("ones", 0) * d["n_values"] + d["n1"] * (d["task"] - 1) if d.get("n_values") else d["n_a"]
        return groups * (positions + again)
    if mode == VectorMode.DOT:
        return groups * d["n_b"] * max(d["n_a"], way if d.get("last") else 0)
    if mode == VectorMode.SCALE:
        if task == NormTask.BACKWARD:
            return groups * d["n_a"]
        return d["n_a"] + groups * max(positions, d["n_a"] + HELD_CYCLES)
    if mode == VectorMode.TABLES:
        return groups * table_cycles(TABLES_BY_TASK[NormTask(task)], config)
    results = positions // d["n_a"] * way * (2 if mode == VectorMode.MAX else 1)  # a maximum's index follows it
    if d.get("momentum"):
        first, channels = d.get("b_stride", 0), d["n_b"]
        blocks = (first + channels - 1) // BLOCK - first // BLOCK + 1
        draws = positions // d["n_a"] // -(-channels // config.rows) * blocks * DRAW_CYCLES
        return max(positions, results, draws)
    return max(positions, results)


def _loading(config: Config, d: Mapping[str, int]) -> int:
    """Cycles in which a stationary tile is loaded, or the slices of a block of sums."""
    rows, cols = (d["n_b"], d["n_a"]) if d.get("swap") else (d["n_a"], d["n_b"])
    cols = min(config.cols, cols)
    return max(min(config.rows, rows), cols) + SLICE_LATENCY if config.output_stationary else cols


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
        self._walked = dict.fromkeys("ab", 0)  # ends of the operands' walks
        self._held = dict.fromkeys("ab", False)  # an operand has had a tile
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

    def _tiles(self, d: Mapping[str, int], shown: int, earliest: Mapping[str, int]) -> Process:
        """Take the tokens of the operands' tiles; returns the cycles in which they were given.

        Operands are each walked on their own, from ``earliest`` on, as soon as a tile is there.
        """
        given = []
        for name in "ab":
            at = 0
            if d.get(f"new_{name}"):
                at = yield self._full[name]
                self._release(name, max(shown + self._config.rows, at, earliest[name]))
            given.append(at)
        return given

    def _release(self, name: str, start: int) -> None:
        """Free the half before that of a tile whose walk starts, if there was one."""
        if self._held[name]:
            self._free[name].give_at(max(start, self._clock.now) + FREE_CYCLES)
        self._held[name] = True

    def _array(self, d: Mapping[str, int], shown: int) -> Process:
        config, work = self._config, passes(self._config, d)
        tile_a, tile_b = yield from self._tiles(d, shown, self._walked)
        lanes = min(config.vector_lanes, d["n_k"]) if config.output_stationary else config.rows
        ready = max(shown + lanes, tile_a, tile_b) + FETCH_CYCLES + _loading(config, d)
        begin = max(ready, self._end + PAUSE_CYCLES * (not config.output_stationary))
        drained = 0
        whole = d["n_k"] - 1 if config.output_stationary else 0  # a half is wanted when the first block is complete
        yield begin + whole - self._clock.now
        if d.get("first"):
            drained = yield self._free["acc"]
            begin = max(begin, drained + 2 - whole)
        self._account(max(self._end, shown), tile_a, tile_b, ready, drained, begin)
        self.stalls["stall_load"] += work.cycles - work.active
        self.active += work.active
        self.macs += d["n_k"] * d["n_a"] * d["n_b"]
        self._end = begin + work.cycles
        stream, held = "ba" if d.get("swap") else "ab"
        ahead = work.last if config.output_stationary else 0
        self._walked = {stream: self._end - FETCH_CYCLES - ahead, held: self._end - work.last}
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
        free = self._end + pause - FETCH_CYCLES
        tile_a, tile_b = yield from self._tiles(d, shown, dict.fromkeys("ab", free))
        begin = max(shown + config.rows, tile_a, tile_b, free) + FETCH_CYCLES
        yield begin - self._clock.now
        self.pooled += work
        self._end = begin + work
        self._walked = dict.fromkeys("ab", self._end)
        if d.get("last"):
            self.vectors.give_at(self._end + POOL_LATENCY)
        yield self._end - self._clock.now
        self._queue.drop()
