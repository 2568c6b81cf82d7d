"""A schedule of phases, the position in it and a gate's threshold, as the machine's registers hold them."""

from dataclasses import dataclass, replace

from .commands import Phase

__all__ = [
    "ENTRIES", "GP_MOMENTUM", "KEEP", "PREDICTING", "PREDICTIONS", "SOURCES", "STREAM", "Entry", "Schedule", "State",
    "Threshold", "following",
]  # fmt: skip

ENTRIES = 8
"""Most entries of a schedule."""

SOURCES = ("predicted", "random", "zero", "last", "mean", "skip")
"""Sources of gradients in GP batches. ``predicted``: the paper's. ``random``: predictions with signs at random.
``zero``: none, so that momentum coasts. ``last``: the last true gradient. ``mean``: an exponential mean of true ones.
``skip``: the batch isn't run at all."""
PREDICTING = SOURCES[:2]
"""The sources with a predictor."""

KEEP = "keep"
"""GP batches step without momentum, and leave it as it is."""
GP_MOMENTUM = ("update", KEEP)
"""What GP batches do with momentum; ``update``: as BP batches."""
STREAM = "stream"
"""Predictions reach the update on chip."""
PREDICTIONS = ("spill", STREAM)
"""Ways of predictions to the update; ``spill``: through memory."""

Threshold = tuple[int, int]
"""Least squared cosine of a prediction: unsigned mantissa of 16 bits and exponent of 8."""


@dataclass(frozen=True)
class Entry:
    """Runs, during ``epochs``, of ``gp`` batches with predicted gradients, then of ``bp`` with true ones.

    Runs go on from epoch to epoch and from entry to entry; what changes is how long the next one is.
    """

    epochs: int
    gp: int
    bp: int


@dataclass(frozen=True)
class Schedule:
    """``warmup`` epochs, then ``entries``, the last for as long as it goes on; no entry: true gradients only.

    Raises ValueError for what doesn't fit the registers.
    """

    warmup: int
    batches: int
    """Batches in an epoch; 0 is as 1."""
    entries: tuple[Entry, ...] = ()

    def __post_init__(self):
        if len(self.entries) > ENTRIES:
            raise ValueError(f"a schedule has at most {ENTRIES} entries, not {len(self.entries)}")
        for value in (self.warmup, *(value for e in self.entries for value in (e.epochs, e.gp, e.bp))):
            if not 0 <= value < 1 << 16:
                raise ValueError(f"epochs and lengths of runs in a schedule are 0..65535, not {value}")
        if not 0 <= self.batches < 1 << 32:
            raise ValueError(f"an epoch has fewer than 2^32 batches, not {self.batches}")

    def entry(self, epoch: int) -> Entry:
        """The entry of an epoch after the warm-up."""
        first = self.warmup
        for entry in self.entries[:-1]:
            first += entry.epochs
            if epoch < first:
                return entry
        return self.entries[-1] if self.entries else Entry(0, 0, 1)


@dataclass(frozen=True)
class State:
    """Position before a batch: the epoch, batches of it that are over, the kind of run (True: GP), batches of it left.

    At first a run of BP is over, so that one of GP begins after the warm-up.
    """

    epoch: int = 0
    batch: int = 0
    gp: bool = False
    left: int = 0


def following(state: State, schedule: Schedule, gate_open: bool = True) -> tuple[Phase, State]:
    """The phase of the next batch, and the state after it.

    While the gate isn't open no run of GP begins; one that has begun is finished. Where a run would have no batch, the
    other kind goes on; where both would have none, true gradients are used.
    """
    over = state.batch + 1 >= schedule.batches
    after = replace(state, epoch=state.epoch + over, batch=0 if over else state.batch + 1)
    if state.epoch < schedule.warmup:
        return Phase.WARMUP, after
    entry = schedule.entry(state.epoch)
    gp, left = state.gp, state.left
    if left == 0:
        lengths = {True: entry.gp if gate_open else 0, False: entry.bp}
        gp = not gp if lengths[not gp] else gp
        left = lengths[gp]
        if left == 0:
            gp, left = False, 1
    return (Phase.GP if gp else Phase.BP), replace(after, gp=gp, left=left - 1)
