"""A timeline as text, a row for each device, and as data for JSON."""

from collections.abc import Iterator
from fractions import Fraction
from math import gcd, lcm

from rich.text import Text

from ...spec.phases import GP, PHASE_NAMES
from .counts import idle_share, memory, staleness
from .steps import Step, What
from .timing import Slot, Timeline

__all__ = ["COLOURS", "as_data", "label", "lines"]

COLOURS = {
    What.FORWARD: ("#9ecae1", "#c7e9c0"), What.BACKWARD: ("#fdae6b", "#fdae6b"),
    What.BACKWARD_INPUT: ("#fdae6b", "#fdae6b"), What.BACKWARD_WEIGHT: ("#bcbddc", "#bcbddc"),
    What.UPDATE: ("#525252", "#525252"),
}  # fmt: skip
"""Of a kind of step, in BP and in GP."""
_MOST_CELLS = 20_000


def label(step: Step, timeline: Timeline) -> str:
    """Kind and micro-batch; in GP the kind is a small letter. A device's further stages are b, c, ... after it."""
    schedule = timeline.schedule
    letter = step.what.lower() if step.phase == GP else str(step.what)
    number = "" if step.micro_batch is None else str(step.micro_batch)
    if schedule.replicas == 1 and schedule.stages <= schedule.devices:
        return letter + number
    return letter + number + "abcdefghijklmnopqrstuvwxyz"[step.replica or step.stage // schedule.devices]


def _unit(timeline: Timeline) -> Fraction:
    """The longest time that divides all times of the slots."""
    times = {time for slot in timeline.slots for time in (slot.begin, slot.end)} - {0}
    below = lcm(*(time.denominator for time in times))
    return Fraction(gcd(*(int(time * below) for time in times)), below)


def lines(timeline: Timeline, width: int = 80) -> Iterator[Text]:
    """The drawing, in pieces that fit ``width`` columns: an axis of steps, then a line for each device."""
    unit = _unit(timeline)
    cells = int(timeline.end / unit)
    if cells * timeline.schedule.devices > _MOST_CELLS:
        yield Text(f"{cells} cells for each of {timeline.schedule.devices} devices are too many to draw as text")
        return
    size = max(len(label(slot.step, timeline)) for slot in timeline.slots if slot.step)
    head = len(f"device {timeline.schedule.devices - 1} ")
    count = max(1, (width - head) // size)
    rows = [list(_cells(timeline, device, unit, size)) for device in range(timeline.schedule.devices)]
    for first in range(0, cells, count):
        yield _axis(first, min(first + count, cells), unit, size, head)
        for device, row in enumerate(rows):
            yield Text(f"device {device}".ljust(head)) + Text("").join(row[first : first + count])


def _axis(first: int, last: int, unit: Fraction, size: int, head: int) -> Text:
    """The steps, wherever a whole multiple of five begins."""
    axis = "step".ljust(head)
    for cell in range(first, last):
        if cell * unit % 5 == 0:
            axis = axis.ljust(head + (cell - first) * size) + f"{int(cell * unit)} "
    return Text(axis.rstrip(), style="dim")


def _cells(timeline: Timeline, device: int, unit: Fraction, size: int) -> Iterator[Text]:
    for slot in timeline.row(device):
        length = int((slot.end - slot.begin) / unit)
        if slot.step is None:
            yield from [Text(".".ljust(size), style="dim")] * length
        elif length:
            text, style = label(slot.step, timeline), f"black on {COLOURS[slot.what][slot.step.phase == GP]}"
            yield Text(text.ljust(size, "=" if length > 1 else " "), style=style)
            yield from [Text("=" * size, style=style)] * (length - 2)
            yield from [Text("=" * (size - 1) + " ", style=style)] * (length > 1)


def as_data(timeline: Timeline) -> dict:
    """The schedule with its times and counts, for JSON."""
    schedule = timeline.schedule
    missed = staleness(timeline)
    return {
        "schedule": schedule.name, "devices": schedule.devices, "stages": schedule.stages,
        "micro_batches": schedule.micro_batches, "batches": [PHASE_NAMES[phase] for phase in schedule.batches],
        "steps": float(timeline.end), "idle_share": float(idle_share(timeline)),
        "memory": [float(held) for held in memory(timeline)], "updates_missed": [one for one, _ in missed],
        "updates_between_forward_and_backward": [one for _, one in missed],
        "lists": [[_entry(slot) for slot in timeline.row(device)] for device in range(schedule.devices)],
    }  # fmt: skip


def _entry(slot: Slot) -> dict:
    times = {"begin": float(slot.begin), "end": float(slot.end)}
    if slot.step is None:
        return {"what": "idle", **times}
    step = slot.step
    return {
        "what": step.what.name.lower(), "stage": step.stage, "micro_batch": step.micro_batch, "batch": step.batch,
        "phase": PHASE_NAMES[step.phase], "replica": step.replica, **times,
    }  # fmt: skip
