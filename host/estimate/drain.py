"""The drain engine in time."""

from collections.abc import Mapping

from ...rtl.drain.drain import Drain as Hardware
from ...rtl.drain.epilogue import Epilogue, result_latency
from ...rtl.drain.window_sums import N_WINDOWS
from ...rtl.lib.maximum import Maximum
from ...spec.config import Config
from .clock import Clock, Process, Queue, Tokens

__all__ = ["Drain"]

TAKING_CYCLES = 3
"""From a descriptor's arrival to its walk, with its tokens there: IDLE, WAIT, START (drain.py)."""
DONE_CYCLES = Epilogue.LATENCY + 1 + Maximum.LATENCY
"""From the last vector read to the tile's end (drain.py)."""
SUM_END_CYCLES = 12
"""Terms of window sums that are under way after the last one (reorganise.py)."""


class Drain:
    """The engine as a process; ``vectors`` are given by the pool unit and batch norm's."""

    def __init__(self, clock: Clock, config: Config, queue: Queue, tokens: Mapping[str, Tokens], vectors: Tokens):
        self._clock, self._config, self._queue, self._tokens, self._vectors = clock, config, queue, tokens, vectors
        self.busy = 0
        clock.start(self._run())

    def _run(self) -> Process:
        tokens = self._tokens
        while True:
            yield self._queue.there
            d = self._queue.drop()
            summed = not d.get("vector") and not d.get("zeros")
            yield tokens["c_ready"]
            if summed:
                yield tokens["acc_full"]
            yield TAKING_CYCLES
            begin = self._clock.now
            length = waited = _length(self._config, d)
            extra = 0
            if d.get("vector") and not d.get("reorganise"):
                arrived = yield self._vectors
                waited = max(length, arrived - begin)
            elif d.get("reorganise") and not d.get("vector"):
                extra = _sums(self._config, d)
            last = begin + Hardware.READ_STAGES + waited + extra
            self.busy += Hardware.READ_STAGES + length + extra
            if summed:
                tokens["acc_free"].give_at(last + 1)
            yield last + DONE_CYCLES + (SUM_END_CYCLES if extra else 0) - self._clock.now
            tokens["drained"].give()


def _length(config: Config, d: Mapping[str, int]) -> int:
    """Cycles of a descriptor's vectors in the epilogue."""
    lanes = config.rows if d.get("vector") else config.cols
    loops = ("n_in", "n_out") if d.get("last_inner") else ("n_out", "n_in")
    vectors, again = (d[name] for name in loops)
    folds = (vectors - 1) * config.folds(lanes) + config.folds(d["lanes_last"])
    return folds * again * (2 if d.get("idx") else 1)


def _sums(config: Config, d: Mapping[str, int]) -> int:
    """Cycles that a tile's window sums add to its vectors' own."""
    settle = result_latency(config) + N_WINDOWS
    rows = d["n_out"]
    if not d.get("swap"):  # after each row of vectors the sums of its filters leave
        filters = (rows - 1) * config.cols + d["lanes_last"]
        return rows * settle + N_WINDOWS * filters
    width, height, first = d["width"], d["height"], d.get("row", 0) * d["width"]
    touched = 0
    for o in range(rows):
        lanes = d["lanes_last"] if o == rows - 1 else config.cols
        pixels = range(first + o * config.cols, first + o * config.cols + lanes)
        touched += max(1, len({((p // width) % height * 2 // height, p % width * 2 // width) for p in pixels})) - 1
    return rows * (settle + config.cols) + touched * d["n_in"]
