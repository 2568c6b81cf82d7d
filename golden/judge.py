"""The ends that a command may come to, by its fields, the memory and the write regions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..spec.commands import Command
from ..spec.config import Config
from ..spec.errors import ErrorCode
from ..spec.opcodes import COMPUTE, UPDATES
from .footprint import Runs, reads, writes
from .occupancy import Tile, misfit
from .validate import validate

__all__ = ["Surroundings", "Verdict", "judge"]


@dataclass(frozen=True)
class Surroundings:
    """A command's surroundings: memory's size, write regions, place of operand A, commands given out (see validate)."""

    memory_bytes: int
    regions: Sequence[tuple[int, int]]
    a_base: int
    given: Mapping[str, int]


@dataclass(frozen=True)
class Verdict:
    """Codes that a command may end with, NONE if it may be executed; of several codes, the first in time counts.

    ``partial``: part of its result may have been written before it fails.
    """

    codes: frozenset[ErrorCode]
    partial: bool = False


def _refused(code: ErrorCode) -> Verdict:
    return Verdict(frozenset({code}))


def judge(command: Command, config: Config, around: Surroundings) -> Verdict:
    """Verdict on the end of ``command``.

    NONE or WRITE_REGION if a run of the result lies in several regions together but in none of them as a whole.
    """
    code = validate(command, config, around.given)
    if code != ErrorCode.NONE:
        return _refused(code)
    if command.opcode in COMPUTE:
        aside = command.predictor and config.n_cores > 1
        return _compute(command, config.predictor_core if aside else config, around)
    return _update(command, config, around) if command.opcode in UPDATES else _refused(ErrorCode.NONE)


def _update(command: Command, config: Config, around: Surroundings) -> Verdict:
    """Regions are checked first, array by array; then each chunk is read before it is written."""
    results = writes(command, config).values()
    if command.count and not all(_inside(run.address, run.end, around.regions) for run in results):
        return _refused(ErrorCode.WRITE_REGION)
    if command.count and _beyond(reads(command, config, around.a_base), around):
        return Verdict(frozenset({ErrorCode.READ_FAULT}), partial=True)
    return _refused(ErrorCode.NONE)


def _compute(command: Command, config: Config, around: Surroundings) -> Verdict:
    unfit = misfit(command, config)
    if unfit and not unfit.reads:
        return _refused(unfit.code)
    found = {unfit.code} if unfit else set()
    unreadable = _beyond(reads(command, config, around.a_base), around)
    if unreadable:
        found.add(ErrorCode.READ_FAULT)
    single = max(Tile(command).counts) == 1
    if (unfit and not unfit.later) or (unreadable and single):
        return Verdict(frozenset(found))
    results = writes(command, config)
    if _beyond(results, around):
        found.add(ErrorCode.WRITE_FAULT)
    allowed = [_allowed(runs, around.regions) for runs in results.values()]
    passes = not found and False not in allowed
    if not all(allowed):
        found.add(ErrorCode.WRITE_REGION)
    return Verdict(frozenset(found | {ErrorCode.NONE} if passes else found), partial=bool(found))


def _beyond(operands: Mapping[str, Runs], around: Surroundings) -> bool:
    return any(runs.end > around.memory_bytes for runs in operands.values())


def _inside(start: int, end: int, regions: Sequence[tuple[int, int]]) -> bool:
    return any(low <= start and end <= high for low, high in regions)


def _covered(start: int, end: int, regions: Sequence[tuple[int, int]]) -> bool:
    """Return whether every byte lies in some region."""
    for low, high in sorted(regions):
        if low <= start < high:
            start = high
    return start >= end


def _allowed(runs: Runs, regions: Sequence[tuple[int, int]]) -> bool | None:
    """Return whether a result may be written; None if that depends on how a run over several regions is cut."""
    if _inside(runs.address, runs.end, regions):
        return True
    spread = [run for run in runs.intervals() if not _inside(*run, regions)]
    if not all(_covered(*run, regions) for run in spread):
        return False
    return None if spread else True
