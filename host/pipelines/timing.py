"""Timelines: the steps of a schedule with the times at which they begin and end."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from .steps import PipelineError, Schedule, Step, What

__all__ = ["Durations", "Slot", "Timeline", "timed"]

Time = int | Fraction


@dataclass(frozen=True)
class Durations:
    """Durations of steps and links. The unit is a step: the forward pass of a stage, with a stage for each device."""

    backward: Time = 2
    """Of a whole backward pass; each half of a split one takes half of it."""
    update: Time = 0
    latency: Time = 0
    """From the end of a step on one device until another device can use the result."""

    def __post_init__(self):
        for name, least in (("backward", 1), ("update", 0), ("latency", 0)):
            value = getattr(self, name)
            if value < least:
                raise PipelineError(f"{name} = {value} must be at least {least}")

    def of(self, step: Step, forward: Fraction) -> Fraction:
        """Duration of a step if a forward step takes ``forward``."""
        half = Fraction(self.backward) / 2
        match step.what:
            case What.FORWARD:
                return forward
            case What.BACKWARD:
                return 2 * half * forward
            case What.UPDATE:
                return Fraction(self.update) * forward
            case _:
                return half * forward


@dataclass(frozen=True)
class Slot:
    """A step at its time; without a step the device is idle."""

    device: int
    begin: Fraction
    end: Fraction
    step: Step | None = None

    @property
    def what(self) -> What:
        return self.step.what if self.step else What.IDLE


@dataclass(frozen=True)
class Timeline:
    """The slots of a schedule, without idle ones."""

    schedule: Schedule
    durations: Durations
    slots: tuple[Slot, ...]

    @property
    def end(self) -> Fraction:
        """Steps from the beginning to the end of the last slot."""
        return max((slot.end for slot in self.slots), default=Fraction(0))

    def row(self, device: int) -> Iterator[Slot]:
        """Slots of a device in the order of time, with its idle times from 0 to the end."""
        now = Fraction(0)
        own = [slot for slot in self.slots if slot.device == device]
        for slot in sorted(own, key=lambda slot: (slot.begin, slot.end)):
            if slot.begin > now:
                yield Slot(device, now, slot.begin)
            yield slot
            now = max(now, slot.end)
        if now < self.end:
            yield Slot(device, now, self.end)


def timed(schedule: Schedule, durations: Durations | None = None) -> Timeline:
    """Let each device take its steps in order, each as soon as possible; raises PipelineError if all wait."""
    durations = durations or Durations()
    run = _Run(schedule, durations)
    done = [0] * schedule.devices
    while waiting := [d for d, steps in enumerate(schedule.lists) if done[d] < len(steps)]:
        before = sum(done)
        for device in waiting:
            steps = schedule.lists[device]
            while done[device] < len(steps) and run.take(steps[done[device]], device):
                done[device] += 1
        if sum(done) == before:
            heads = "; ".join(f"device {d} at {schedule.lists[d][done[d]]}" for d in waiting)
            raise PipelineError(f"{schedule.name}: the devices wait for each other: {heads}")
    return Timeline(schedule, durations, tuple(run.slots))


class _Run:
    """Slots of the steps taken so far."""

    def __init__(self, schedule: Schedule, durations: Durations):
        self.schedule, self.durations = schedule, durations
        self.slots: list[Slot] = []
        self.known: dict[Step, Slot] = {}
        self.free = [Fraction(0)] * schedule.devices
        self.left = Counter(step.tick for steps in schedule.lists for step in steps)
        self.ticks_ended: dict[int, Fraction] = {}

    def take(self, step: Step, device: int) -> bool:
        """Give a step its slot; False if it waits for steps that have none yet."""
        if self.schedule.ticks and any(n for tick, n in self.left.items() if tick < step.tick):
            return False
        times = []
        for need in self.schedule.needs(step):
            slot = self.known.get(need)
            if slot is None:
                return False
            times.append(slot.end + self.durations.latency * (slot.device != device))
        if self.schedule.ticks:
            times += [end for tick, end in self.ticks_ended.items() if tick < step.tick]
        begin = max([self.free[device], *times])
        slot = Slot(device, begin, begin + self.durations.of(step, self.schedule.forward), step)
        self.slots.append(slot)
        self.known[replace(step, tick=0)] = slot
        self.free[device] = slot.end
        self.left[step.tick] -= 1
        self.ticks_ended[step.tick] = max(self.ticks_ended.get(step.tick, Fraction(0)), slot.end)
        return True
