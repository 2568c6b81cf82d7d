"""Counts of a timeline: steps, idle share, activations held, staleness; and what ADA-GP gains on a schedule."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from ...spec.phases import BP, GP
from .checking import versions
from .schedules import CHUNKS, SCHEDULES, build
from .steps import BACKWARDS, Step, What
from .timing import Durations, Timeline, timed

__all__ = ["Mix", "StepCounter", "fitted_mix", "formula", "idle_share", "memory", "staleness"]


def idle_share(timeline: Timeline) -> Fraction:
    """Part of all devices' time, from the beginning to the end, in which they do nothing."""
    busy = sum((slot.end - slot.begin for slot in timeline.slots), Fraction(0))
    return 1 - busy / (timeline.schedule.devices * timeline.end) if timeline.end else Fraction(0)


def memory(timeline: Timeline) -> list[Fraction]:
    """Most activations that each device holds at once, in those of a micro-batch in a stage of one a device.

    A forward step's are held on its device until the last backward step of that stage has ended, in GP until its own
    end.
    """
    schedule = timeline.schedule
    ends: dict[tuple, Fraction] = {}
    begins: dict[tuple, tuple[int, Fraction]] = {}
    for slot in timeline.slots:
        step = slot.step
        if step is None or step.what is What.UPDATE:
            continue
        key = step.replica, step.stage, step.batch, step.micro_batch
        if step.what is What.FORWARD:
            begins[key] = slot.device, slot.begin
        ends[key] = max(ends.get(key, slot.end), slot.end)
    changes: list[list[tuple[Fraction, int]]] = [[] for _ in range(schedule.devices)]
    for key, (device, begin) in begins.items():
        changes[device] += [(begin, 1), (ends[key], -1)]
    peaks = []
    for own in changes:
        held = peak = 0
        for _, change in sorted(own):
            held += change
            peak = max(peak, held)
        peaks.append(peak * schedule.forward)
    return peaks


def staleness(timeline: Timeline) -> list[tuple[int, int]]:
    """By stage: most updates that a forward step missed, and most updates between it and its backward step."""
    schedule = timeline.schedule
    seen = versions(timeline)
    found = [(0, 0)] * schedule.stages
    forward = {_key(step): version for step, version in seen.items() if step.what is What.FORWARD}
    for step, version in seen.items():
        missed, moved = found[step.stage]
        if step.what is What.FORWARD:
            missed = max(missed, schedule.number(step) - version)
        elif step.what in BACKWARDS:
            moved = max(moved, version - forward[_key(step)])
        found[step.stage] = missed, moved
    return found


def _key(step: Step) -> tuple:
    return step.replica, step.stage, step.batch, step.micro_batch


@dataclass(frozen=True)
class Mix:
    """A training's batches by phase: ``warmup`` epochs of BP, then runs of GP and BP batches."""

    epochs: int
    warmup: int
    runs: tuple[tuple[int, int, int], ...]
    """Epochs, GP batches, BP batches; the last for as long as it goes on."""

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Epochs with the GP and BP batches of a run in them."""
        left = self.epochs
        for n, (epochs, gp, bp) in enumerate([(self.warmup, 0, 1), *self.runs]):
            taken = left if n == len(self.runs) else min(epochs, left)
            left -= taken
            if taken:
                yield taken, gp, bp

    @property
    def share(self) -> Fraction:
        """Share of GP batches."""
        return sum((Fraction(epochs * gp, gp + bp) for epochs, gp, bp in self.parts()), Fraction(0)) / self.epochs


def formula(bp_steps: Fraction, gp_steps: Fraction, share: Fraction) -> Fraction:
    """Speed-up by a share of GP batches if each batch takes its steps whatever comes before it."""
    return bp_steps / ((1 - share) * bp_steps + share * gp_steps)


def fitted_mix(first: tuple[int, float], second: tuple[int, float], gp_steps: int) -> tuple[float, float]:
    """The share of GP batches, and the lengthening of all steps, that give two speed-ups at once.

    ``first`` and ``second`` are steps of a BP batch and the speed-up there. The speed-up of T steps is
    T / ((1 + lengthening) * ((1 - share) * T + share * G)).
    """
    (steps_1, gain_1), (steps_2, gain_2) = first, second
    saved_1, saved_2 = 1 - gp_steps / steps_1, 1 - gp_steps / steps_2
    share = (gain_1 - gain_2) / (gain_1 * saved_1 - gain_2 * saved_2)
    return share, 1 / (gain_1 * (1 - share * saved_1)) - 1


@dataclass(frozen=True)
class StepCounter:
    """Counts the steps of sequences of batches on one schedule."""

    name: str
    devices: int
    micro_batches: int
    durations: Durations = field(default_factory=Durations)
    chunks: int = CHUNKS

    def timeline(self, batches: Sequence[int]) -> Timeline:
        build(self.name, self.devices, self.micro_batches, chunks=self.chunks)  # checks them
        made = SCHEDULES[self.name].make(self.devices, self.micro_batches, tuple(batches), self.chunks)
        return timed(made, self.durations)

    def steps(self, *batches: int) -> Fraction:
        """Steps from the beginning of the first batch to the end of the last."""
        return self.timeline(batches).end

    def lasting(self, *batches: int) -> Fraction:
        """Steps that the sequence takes as one of many."""
        before = 2 + ceil(2 * self.devices / (self.micro_batches * len(batches)))
        return self.steps(*batches * (before + 1)) - self.steps(*batches * before)

    def idle(self, *batches: int) -> Fraction:
        """Idle share of the sequence as one of many."""
        work = sum(1 + (phase != GP) * Fraction(self.durations.backward) for phase in batches) * self.micro_batches
        return 1 - work / self.lasting(*batches)

    def gain(self, mix: Mix) -> Fraction:
        """Speed-up of ADA-GP over the same schedule without GP batches, counted run by run."""
        spent = sum(
            (epochs * self.lasting(*(GP,) * gp, *(BP,) * bp) / (gp + bp) for epochs, gp, bp in mix.parts()),
            Fraction(0),
        )
        return mix.epochs * self.lasting(BP) / spent
