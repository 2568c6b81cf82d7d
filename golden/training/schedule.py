"""Schedules of phases: the same tables, and the same rule, as the machine's (:mod:`adagp.spec.schedule`)."""

from collections.abc import Iterable

from ...spec.schedule import Entry, Schedule
from ..paper import PHASES, WARMUP_EPOCHS

__all__ = ["PAPER", "schedule"]


def schedule(warmup: int, *entries: Iterable[int]) -> Schedule:
    """``warmup`` epochs of true gradients, then ``entries`` of (epochs, GP batches, BP batches), the last one for ever.

    ``schedule(1, (2, 4, 1), (1, 1, 1))``: after one epoch runs of four batches with predicted gradients and one with
    true ones for two epochs, then one for one. The length of an epoch is the loader's. Raises ValueError for what the
    machine's registers can't hold.
    """
    return Schedule(warmup, 0, tuple(Entry(*entry) for entry in entries))


PAPER = schedule(WARMUP_EPOCHS, *PHASES)
"""The paper's (section 3.5, its end)."""
