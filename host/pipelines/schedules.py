"""The schedules by name, for any number of devices and micro-batches, as data."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...spec.phases import BP, GP, PHASE_NAMES
from .flushed import Batch, ended, gpipe, interleaved, one_f_one_b, zb_h1
from .merging import merged
from .steps import PipelineError, Place, Schedule, Step, What
from .unflushed import registers, streamed

__all__ = ["CHUNKS", "LIMITS", "SCHEDULES", "Kind", "build", "parse_batches"]

CHUNKS = 2
"""Stages of a device in the interleaved schedule, unless another number is asked for."""
LIMITS = {"devices": (1, 64), "micro_batches": (1, 256), "batches": (1, 64), "chunks": (2, 16)}
"""Least and largest numbers that schedules are made for."""
_MOST_STEPS = 100_000


@dataclass(frozen=True)
class Kind:
    """A schedule's title and maker."""

    title: str
    make: Callable[[int, int, tuple[int, ...], int], Schedule]
    """From devices, micro-batches, batches and chunks."""
    rule: Callable[[int, int], str] = lambda devices, micro_batches: ""
    """Says why numbers of devices and micro-batches don't fit; empty if they do."""


Lister = Callable[[Batch, int, int, int], Iterator[Step]]


def _flushed(name: str, lister: Lister, n: int, m: int, batches: tuple[int, ...], chunks: int) -> Schedule:
    """A schedule whose devices work on one batch after the other."""
    lists = []
    for device in range(n):
        steps: list[Step] = []
        for batch, phase in enumerate(batches):
            steps += ended(list(lister(_maker(batch, phase), device, n, m)), phase)
        lists.append(tuple(steps))
    stages = n * chunks
    places = {(0, stage): Place(stage % n, stage % n) for stage in range(stages)}
    return Schedule(name, tuple(lists), places, stages, m, batches, (0,) * stages)


def _maker(batch: int, phase: int, replica: int = 0, first: int = 0) -> Batch:
    """The maker of a batch's steps; the replica's micro-batches are numbered from ``first``."""

    def make(what: What, stage: int, micro_batch: int | None) -> Step:
        return Step(what, stage, None if micro_batch is None else first + micro_batch, batch, phase, replica)

    return make


def _plain(name: str, lister: Lister) -> Callable[[int, int, tuple[int, ...], int], Schedule]:
    def make(n: int, m: int, batches: tuple[int, ...], chunks: int) -> Schedule:
        return _flushed(name, lister, n, m, batches, 1)

    return make


def _zb_h1(n: int, m: int, batches: tuple[int, ...], chunks: int) -> Schedule:
    return replace(_flushed("zb-h1", zb_h1, n, m, batches, 1), split=True)


def _interleaved(n: int, m: int, batches: tuple[int, ...], chunks: int) -> Schedule:
    return _flushed("interleaved", partial(interleaved, chunks=chunks), n, m, batches, chunks)


def _chimera(n: int, m: int, batches: tuple[int, ...], chunks: int) -> Schedule:
    """Two replicas in opposite directions, each with 1F1B for half of the micro-batches."""
    places = {(0, s): Place(s, s) for s in range(n)} | {(1, s): Place(n - 1 - s, n - 1 - s) for s in range(n)}
    empty = Schedule("chimera", ((),) * n, places, n, m, batches, (0,) * n)
    streams: list[list[list[Step]]] = [[[], []] for _ in range(n)]
    for (replica, stage), place in places.items():
        for batch, phase in enumerate(batches):
            make = _maker(batch, phase, replica, replica * m // 2)
            streams[place.forward][replica] += ended(list(one_f_one_b(make, stage, n, m // 2)), phase)
    return merged(empty, streams, _chimera_rank)


def _chimera_rank(step: Step) -> tuple:
    """Updates before all, older batches before later ones, backward before forward, stages near the end first."""
    return step.what is not What.UPDATE, step.batch, step.what is What.FORWARD, -step.stage


def _stale(name: str, missed: int, n: int, m: int, batches: tuple[int, ...], chunks: int) -> Schedule:
    """A stage on each device, whose forward steps miss ``missed`` updates for each stage that follows."""
    staleness = tuple(missed * (n - 1 - stage) for stage in range(n))
    lists = tuple(tuple(streamed(device, staleness[device], m, batches)) for device in range(n))
    places = {(0, stage): Place(stage, stage) for stage in range(n)}
    return Schedule(name, lists, places, n, m, batches, staleness, eager=True)


def _registers(name: str, n: int, m: int, batches: tuple[int, ...], chunks: int) -> Schedule:
    lists = tuple(tuple(registers(device, n, m, batches)) for device in range(n))
    stages = n // 2 + 1
    places = {(0, stage): Place(stage, n - 1 - stage) for stage in range(stages)}
    missed = tuple(2 * (stages - 1 - stage) for stage in range(stages))
    return Schedule(name, lists, places, stages, m, batches, missed, eager=True, ticks=True)


def _chimera_rule(devices: int, micro_batches: int) -> str:
    if devices % 2:
        return f"devices = {devices} must be even, since each has a stage of both directions"
    if micro_batches % 2 or micro_batches < devices:
        return (
            f"micro_batches = {micro_batches} must be even and at least the number of devices, {devices}: each"
            " direction takes half of them"
        )
    return ""


def _interleaved_rule(devices: int, micro_batches: int) -> str:
    if devices > 1 and micro_batches % devices == 0:
        return ""
    if devices == 1:
        return "devices = 1 must be at least 2, since one device has all stages anyway"
    return f"micro_batches = {micro_batches} must be a multiple of devices = {devices}, since they pass in groups"


def _registers_rule(devices: int, micro_batches: int) -> str:
    return "" if devices % 2 else f"devices = {devices} must be odd: the middle one does the last stage both ways"


SCHEDULES = {
    "gpipe": Kind("GPipe", _plain("gpipe", gpipe)),
    "1f1b": Kind("1F1B (DAPPLE)", _plain("1f1b", one_f_one_b)),
    "interleaved": Kind("interleaved 1F1B", _interleaved, _interleaved_rule),
    "chimera": Kind("Chimera", _chimera, _chimera_rule),
    "zb-h1": Kind("ZB-H1", _zb_h1),
    "stale-1f1b": Kind("stale weights, 1F1B", partial(_stale, "stale-1f1b", 1)),
    "stale-paired": Kind("stale weights, paired registers", partial(_stale, "stale-paired", 2)),
    "stale-registers": Kind("stale weights, registers", partial(_registers, "stale-registers"), _registers_rule),
}


def build(
    name: str, devices: int = 4, micro_batches: int = 4, batches: Sequence[int] = (BP,), chunks: int = CHUNKS
) -> Schedule:
    """The schedule of that name for a sequence of BP and GP batches; raises PipelineError."""
    if name not in SCHEDULES:
        raise PipelineError(f"schedule = {name!r} must be one of {', '.join(SCHEDULES)}")
    values = {"devices": devices, "micro_batches": micro_batches, "batches": len(batches), "chunks": chunks}
    for key, (least, most) in LIMITS.items():
        if not least <= values[key] <= most:
            what = "number of batches" if key == "batches" else key
            raise PipelineError(f"{what} = {values[key]} must satisfy {least} <= {what} <= {most}")
    if wrong := [phase for phase in batches if phase not in (BP, GP)]:
        raise PipelineError(f"phase {wrong[0]} of a batch must be BP ({BP}) or GP ({GP})")
    if rule := SCHEDULES[name].rule(devices, micro_batches):
        raise PipelineError(f"{name}: {rule}")
    if devices * micro_batches * len(batches) > _MOST_STEPS:
        raise PipelineError(f"devices * micro-batches * batches must be at most {_MOST_STEPS:,}")
    return SCHEDULES[name].make(devices, micro_batches, tuple(batches), chunks)


def parse_batches(text: str) -> tuple[int, ...]:
    """The phases of ``bp,gp,bp``; raises PipelineError."""
    known = {PHASE_NAMES[phase]: phase for phase in (BP, GP)}
    words = text.split(",")
    if wrong := [word for word in words if word not in known]:
        raise PipelineError(f"batches = {text!r} must be bp and gp with commas between them, not {wrong[0]!r}")
    return tuple(known[word] for word in words)
