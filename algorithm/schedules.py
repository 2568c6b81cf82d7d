"""Schedules of phases: the same tables, and the same rule, as the machine's (:mod:`adagp.spec.schedule`)."""

from collections.abc import Iterable
from dataclasses import astuple, replace

from ..spec.commands import Phase
from ..spec.schedule import Entry, Schedule, State, following
from .paper_numbers import PHASES, WARMUP_EPOCHS

__all__ = ["PAPER", "Position", "phase_name", "schedule"]

_ENDLESS = (1 << 32) - 1
"""Batches in an epoch. It ends when :meth:`Position.end_epoch` says so, not by count."""


def schedule(warmup: int, *entries: Iterable[int]) -> Schedule:
    """Schedule of ``warmup`` epochs of true gradients, then ``entries`` of (epochs, GP batches, BP batches).

    The last entry goes on for ever.

    ``schedule(1, (2, 4, 1), (1, 1, 1))``: after one epoch runs of four batches with predicted gradients and one with
    true ones for two epochs, then one for one. The length of an epoch is the loader's. Raises ValueError for other
    entries, and for what the machine's registers can't hold.
    """
    rows = [tuple(entry) for entry in entries]
    if odd := [row for row in rows if len(row) != 3]:
        raise ValueError(f"the entry {odd[0]} must be (epochs, GP batches, BP batches)")
    return Schedule(warmup, 0, tuple(Entry(*row) for row in rows))


PAPER = schedule(WARMUP_EPOCHS, *PHASES)
"""The paper's schedule (section 3.5, its end)."""


def phase_name(phase: Phase) -> str:
    """The phase's name in metrics, and in outcomes of experiments."""
    return str(phase.name).lower()


class Position:
    """The place of a training in its schedule."""

    def __init__(self, table: Schedule):
        self._table, self._state = replace(table, batches=_ENDLESS), State()

    @property
    def epoch(self) -> int:
        """Number of the present epoch; as many are over."""
        return self._state.epoch

    def next(self, gate_open: bool = True) -> Phase:
        """The phase of the next batch."""
        return following(self._state, self._table, gate_open)[0]

    def advance(self, gate_open: bool = True) -> None:
        """Count that batch as over."""
        self._state = following(self._state, self._table, gate_open)[1]

    def end_epoch(self) -> None:
        """Count the epoch as over; a run of batches goes on in the next."""
        self._state = replace(self._state, epoch=self._state.epoch + 1, batch=0)

    def state(self) -> tuple:
        """The state, for :meth:`go_to`."""
        return astuple(self._state)

    def go_to(self, state: tuple) -> None:
        """Take the place of another position, from its :meth:`state`."""
        self._state = State(*state)
