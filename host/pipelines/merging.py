"""Lists of devices that take the steps of several streams, whichever can begin first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from .steps import PipelineError, Schedule, Step
from .timing import Durations

__all__ = ["merged"]

Rank = Callable[[Step], tuple]


@dataclass
class _Stream:
    """Steps of a device in their order, and the steps that the first of those left still needs."""

    steps: Sequence[Step]
    device: int
    taken: int = 0
    needed: list[Step] | None = None
    ready: Fraction = Fraction(0)
    """The time from which the first step has what it needs, as far as that is known."""

    @property
    def head(self) -> Step:
        return self.steps[self.taken]

    def waits(self, schedule: Schedule, ends: dict[Step, Fraction]) -> bool:
        """Tell whether the first step needs one that has no time yet."""
        if self.needed is None:
            self.needed, self.ready = list(schedule.needs(self.head)), Fraction(0)
        while self.needed and (end := ends.get(self.needed[-1])) is not None:
            self.ready = max(self.ready, end)
            self.needed.pop()
        return bool(self.needed)


def merged(schedule: Schedule, streams: Sequence[Sequence[Sequence[Step]]], rank: Rank) -> Schedule:
    """Fill a schedule's lists from ``streams`` (by device, each in order): first what begins first, then by rank."""
    durations = Durations()
    ends: dict[Step, Fraction] = {}
    free = [Fraction(0)] * len(streams)
    lists: list[list[Step]] = [[] for _ in streams]
    left = [_Stream(steps, device) for device, own in enumerate(streams) for steps in own if steps]
    while left:
        found = [one for one in left if not one.waits(schedule, ends)]
        if not found:
            raise PipelineError(f"{schedule.name}: the streams wait for each other")
        first = min(found, key=lambda one: (max(free[one.device], one.ready), rank(one.head), one.device))
        step, device = first.head, first.device
        lists[device].append(step)
        ends[step] = free[device] = max(free[device], first.ready) + durations.of(step, schedule.forward)
        first.taken, first.needed = first.taken + 1, None
        left = [one for one in left if one.taken < len(one.steps)]
    return replace(schedule, lists=tuple(map(tuple, lists)))
