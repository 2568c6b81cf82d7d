"""A comparison of all schedules on the same devices: steps, idle share, memory, staleness, ADA-GP's gain."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from ...spec.phases import BP, GP
from .counts import Mix, StepCounter, formula, memory, staleness
from .schedules import CHUNKS, SCHEDULES
from .timing import Durations

__all__ = ["Row", "compare"]

EVEN = Fraction(1, 2)
"""The share of GP batches if each BP batch follows one."""


@dataclass(frozen=True)
class Row:
    """Counts of one schedule. Those of a batch are of one of many."""

    name: str
    title: str
    bp: Fraction
    gp: Fraction
    gp_bp: Fraction
    """Steps of a GP and a BP batch, alone, from beginning to end."""
    idle: Fraction
    """Idle share of BP batches."""
    memory: tuple[Fraction, ...]
    """By device; see :func:`~.counts.memory`."""
    missed: tuple[int, ...]
    """By stage: updates that forward steps of BP batches miss."""
    gain: Fraction
    """ADA-GP over the same schedule without GP batches, counted."""
    gain_by_formula: Fraction
    gain_even: Fraction
    """By the formula with as many GP as BP batches, and no warm-up."""

    def to_dict(self) -> dict:
        numbers = {"bp": self.bp, "gp": self.gp, "gp_bp": self.gp_bp, "idle": self.idle, "gain": self.gain,
                   "gain_by_formula": self.gain_by_formula, "gain_even": self.gain_even}  # fmt: skip
        lists = {"memory": [float(held) for held in self.memory], "missed": list(self.missed)}
        return {"name": self.name, "title": self.title, **{key: float(one) for key, one in numbers.items()}, **lists}


def compare(
    devices: int,
    micro_batches: int,
    mix: Mix,
    durations: Durations | None = None,
    chunks: int = CHUNKS,
    names: Iterable[str] = tuple(SCHEDULES),
) -> tuple[list[Row], dict[str, str]]:
    """A row for each named schedule that fits the devices and micro-batches, and the reasons of those that don't."""
    rows, reasons = [], {}
    for name in names:
        kind = SCHEDULES[name]
        if reason := kind.rule(devices, micro_batches):
            reasons[name] = reason
            continue
        counter = StepCounter(name, devices, micro_batches, durations or Durations(), chunks)
        several = counter.timeline((BP,) * (1 + -(-2 * devices // micro_batches)))
        bp, gp = counter.lasting(BP), counter.lasting(GP)
        rows.append(
            Row(
                name, kind.title, bp, gp, counter.steps(GP, BP), counter.idle(BP), tuple(memory(several)),
                tuple(missed for missed, _ in staleness(several)), counter.gain(mix), formula(bp, gp, mix.share),
                formula(bp, gp, EVEN),
            )
        )  # fmt: skip
    return rows, reasons
