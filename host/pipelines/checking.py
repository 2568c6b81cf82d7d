"""The checker: reads the slots of a timeline and tells which rules they break."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from .steps import BACKWARDS, PipelineError, Step, What
from .timing import Slot, Timeline

__all__ = ["check", "faults", "versions"]

_SHOWN = 3


def check(timeline: Timeline) -> None:
    """Raise PipelineError unless the timeline is legal, with the first faults."""
    found = []
    for fault in faults(timeline):
        found.append(fault)
        if len(found) > _SHOWN:
            break
    if found:
        more = ["..."] if len(found) > _SHOWN else []
        raise PipelineError(f"{timeline.schedule.name} isn't legal: {'; '.join(found[:_SHOWN] + more)}")


def faults(timeline: Timeline) -> Iterator[str]:
    """A line for each breach of a rule; none if the timeline is legal."""
    known = {replace(slot.step, tick=0): slot for slot in timeline.slots if slot.step}
    yield from _complete(timeline)
    yield from _places_and_durations(timeline)
    yield from _one_at_a_time(timeline)
    yield from _dependences(timeline, known)
    yield from _ticks(timeline)
    yield from _weights(timeline)


def _complete(timeline: Timeline) -> Iterator[str]:
    """Every micro-batch passes every stage once forward and, in BP, once backward; every update is made once."""
    seen = Counter(replace(slot.step, tick=0) for slot in timeline.slots if slot.step)
    expected = set(timeline.schedule.expected())
    for step in expected:
        if step not in seen:
            yield f"missing: {step}"
    for step, count in seen.items():
        if step not in expected:
            yield f"not of this schedule: {step}"
        elif count > 1:
            yield f"{count} times: {step}"


def _places_and_durations(timeline: Timeline) -> Iterator[str]:
    schedule = timeline.schedule
    for slot in timeline.slots:
        step = slot.step
        if step is None or (step.replica, step.stage) not in schedule.places:
            continue  # an idle slot, or one that the first rule reports
        if slot.device != schedule.device(step):
            yield f"on device {slot.device} instead of {schedule.device(step)}: {step}"
        due = timeline.durations.of(step, schedule.forward)
        if slot.end - slot.begin != due or slot.begin < 0:
            yield f"from {slot.begin} to {slot.end} instead of for {due}: {step}"


def _one_at_a_time(timeline: Timeline) -> Iterator[str]:
    for device in range(timeline.schedule.devices):
        row = [slot for slot in timeline.row(device) if slot.step]
        for before, after in pairwise(row):
            if after.begin < before.end:
                yield f"device {device} does two things at {after.begin}: {before.step}; {after.step}"


def _dependences(timeline: Timeline, known: dict[Step, Slot]) -> Iterator[str]:
    for step, slot in known.items():
        if (step.replica, step.stage) not in timeline.schedule.places:
            continue
        for need in timeline.schedule.needs(step):
            source = known.get(need)
            if source is None:
                continue  # reported as missing
            latency = timeline.durations.latency if source.device != slot.device else 0
            if slot.begin < source.end + latency:
                yield f"begins at {slot.begin}, before {need} has come at {source.end + latency}: {step}"


def _ticks(timeline: Timeline) -> Iterator[str]:
    if not timeline.schedule.ticks:
        return
    ends: dict[int, Fraction] = {}
    for slot in timeline.slots:
        if slot.step:
            ends[slot.step.tick] = max(ends.get(slot.step.tick, Fraction(0)), slot.end)
    latest, before = Fraction(0), {}
    for tick in sorted(ends):
        before[tick], latest = latest, max(latest, ends[tick])
    for slot in timeline.slots:
        if slot.step and slot.begin < before[slot.step.tick]:
            yield f"begins at {slot.begin}, before tick {slot.step.tick}: {slot.step}"


def _weights(timeline: Timeline) -> Iterator[str]:
    """No step reads weights newer than the sequential algorithm's, none older than the schedule says."""
    schedule = timeline.schedule
    for step, seen in versions(timeline).items():
        due = schedule.number(step)
        missed = schedule.staleness[step.stage] if step.what is What.FORWARD else 0
        if not due - missed <= seen <= due:
            yield f"reads weights after {seen} updates instead of {due} (or {missed} fewer): {step}"


def versions(timeline: Timeline) -> dict[Step, int]:
    """Updates of its stage's weights that each forward and backward step sees."""
    schedule, latency = timeline.schedule, timeline.durations.latency
    ends: dict[tuple[int, int], list[Fraction]] = {place: [] for place in schedule.places}
    readers = []
    for slot in timeline.slots:
        step = slot.step
        if step is None or (step.replica, step.stage) not in ends:
            continue
        if step.what is What.UPDATE:
            ends[step.replica, step.stage].append(slot.end)
        elif step.what is What.FORWARD or step.what in BACKWARDS:
            readers.append((slot, step))
    found = {}
    for times in ends.values():
        times.sort()
    for slot, step in readers:
        place = schedule.places[step.replica, step.stage]
        away = latency if slot.device != place.backward else 0
        found[replace(step, tick=0)] = bisect_right(ends[step.replica, step.stage], slot.begin - away)
    return found
