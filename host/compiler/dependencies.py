"""Dependencies of commands: earlier ones that each must wait for, from the bytes that they read and write."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...spec.commands import Command, Phase, command_field
from ...spec.config import Config
from ...spec.opcodes import COMPUTE, UPDATES
from ...spec.operands import WAITS, Operand, counted, filter_pitch, operands, outputs
from ..program import Line
from .lowering import LoweringError

__all__ = ["Access", "Range", "access", "with_waits"]


LARGEST_WAIT = min((1 << command_field(wait).width) - 1 for wait in WAITS)
"""Commands of a batch at most that one can wait for."""


class Range(NamedTuple):
    """Bytes from ``start`` up to ``end``; with a ``pitch``, the first ``length`` of every so many."""

    start: int
    end: int
    pitch: int = 0
    length: int = 0


@dataclass(frozen=True)
class Access:
    """Bytes that a command reads and writes.

    The input ring isn't among them, because the device only reads it.
    """

    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()


def access(c: Command, config: Config, apart: bool = False) -> Access:
    """Bytes that command ``c`` reads and writes, of a product or ``apart`` without those between rows."""
    if c.opcode not in COMPUTE and c.opcode not in UPDATES:
        return Access()
    written, rows = outputs(c), apart or filter_pitch(c, config) > 0
    ranges = {name: _range(place, rows) for name, place in operands(c, config).items()}
    kept = written if c.opcode in UPDATES else ()
    ring = c.ring and c.opcode not in UPDATES
    reads = (name for name in ranges if (name not in written or name in kept) and not (name == "a" and ring))
    return Access(tuple(ranges[name] for name in reads), tuple(ranges[name] for name in written))


def _range(place: Operand, rows: bool) -> Range:
    """The bytes of an operand, row by row if asked for."""
    end, pitch = place.address + place.n_bytes, place.pitch * place.element_bytes
    return Range(place.address, end, *(pitch, place.shape[-1] * place.element_bytes) if rows else ())


class _Queue:
    """Accesses of a queue's commands so far, as arrays: the fields of each range, and its command."""

    def __init__(self):
        self.count = 0
        self._kinds = {kind: np.empty((len(Range._fields) + 1, 64), np.int64) for kind in ("reads", "writes")}
        self._used = dict.fromkeys(self._kinds, 0)

    def add(self, mine: Access) -> None:
        """Add the next command's accesses."""
        self.count += 1
        for kind in self._kinds:
            for each in getattr(mine, kind):
                ranges, used = self._kinds[kind], self._used[kind]
                if used == ranges.shape[1]:
                    ranges = self._kinds[kind] = np.concatenate([ranges, np.empty_like(ranges)], axis=1)
                ranges[:, used] = *each, self.count
                self._used[kind] += 1

    def last_conflict(self, mine: Access) -> int:
        """The number of commands that must be complete before one with the accesses ``mine``."""
        return max(self._last("writes", (*mine.reads, *mine.writes)), self._last("reads", mine.writes))

    def _last(self, kind: str, ranges: Iterable[Range]) -> int:
        starts, ends, pitches, lengths, commands = self._kinds[kind][:, : self._used[kind]]
        last = 0
        for start, end, pitch, length in ranges:
            met = (starts < end) & (start < ends)
            if pitch:  # rows of the same pitch may lie between each other
                between = ((start - starts) % pitch >= lengths) & ((starts - start) % pitch >= length)
                met &= (pitches != pitch) | ~between
            places = np.flatnonzero(met)
            last = max(last, int(commands[places[-1]])) if places.size else last
        return last


def with_waits(lines: Iterable[Line], config: Config) -> list[Line]:
    """The same lines with the least sufficient waits.

    An operand in rows apart counts with the bytes between its rows, but for those of products and of convolutions in
    groups: the heads and the groups of an activation lie between each other's rows. Waits count the commands executed
    in a phase: a line whose counts differ between its phases becomes several, each for the phases that share them.
    Raises LoweringError if a command must wait for more than its fields can count.
    """
    before = {phase: {wait: _Queue() for wait in WAITS} for phase in Phase}
    result = []
    for line in lines:
        command = line.command
        mine = access(command, config, line.apart)
        masks: dict[tuple[int, ...], int] = {}
        for phase in Phase:
            if command.phase_mask & phase:
                waits = tuple(queue.last_conflict(mine) for queue in before[phase].values())
                if max(waits) > LARGEST_WAIT:
                    raise LoweringError(
                        f"{line.name}: a command waits for {max(waits)} others, {LARGEST_WAIT} are the limit; each pair"
                        " of matrices in a product is a command, and each group of a convolution; a smaller batch has"
                        " fewer products"
                    )
                masks[waits] = masks.get(waits, 0) | phase
                if command.opcode in UPDATES or command.opcode in COMPUTE:
                    before[phase][counted(command)].add(mine)
        for waits, mask in (masks or {(0,) * len(WAITS): 0}).items():
            fields = {**command.fields, "phase_mask": mask, **dict(zip(WAITS, waits, strict=True))}
            result.append(replace(line, command=Command(command.opcode, fields)))
    return result
