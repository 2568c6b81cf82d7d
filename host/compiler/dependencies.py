"""Dependencies of commands: earlier ones that each must wait for, from the bytes that they read and write."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ...spec.commands import Command, Phase
from ...spec.config import Config
from ...spec.opcodes import COMPUTE, UPDATES
from ...spec.operands import WAITS, counted, operands, outputs
from ..program import Line

__all__ = ["Access", "access", "with_waits"]


@dataclass(frozen=True)
class Access:
    """Byte ranges (start, end) that a command reads and writes.

    The input ring isn't among them, because the device only reads it.
    """

    reads: tuple[tuple[int, int], ...] = ()
    writes: tuple[tuple[int, int], ...] = ()

    def conflicts(self, later: "Access") -> bool:
        """True if ``later`` reads or overwrites bytes written here, or overwrites bytes read here."""
        return _meet(self.writes, later.reads + later.writes) or _meet(self.reads, later.writes)


def _meet(ranges, others):
    return any(start < other_end and other < end for start, end in ranges for other, other_end in others)


def access(c: Command, config: Config) -> Access:
    """Bytes that command ``c`` reads and writes."""
    if c.opcode not in COMPUTE and c.opcode not in UPDATES:
        return Access()
    written = outputs(c)
    ranges = {name: (place.address, place.address + place.n_bytes) for name, place in operands(c, config).items()}
    kept = written if c.opcode in UPDATES else ()
    ring = c.ring and c.opcode not in UPDATES
    reads = (name for name in ranges if (name not in written or name in kept) and not (name == "a" and ring))
    return Access(tuple(ranges[name] for name in reads), tuple(ranges[name] for name in written))


class _Queue:
    """Accesses of a queue's commands so far, as arrays: first byte, end and command of each range."""

    def __init__(self):
        self.count = 0
        self._kinds = {"reads": np.empty((3, 64), np.int64), "writes": np.empty((3, 64), np.int64)}
        self._used = dict.fromkeys(self._kinds, 0)

    def add(self, mine: Access) -> None:
        """Add the next command's accesses."""
        self.count += 1
        for kind in self._kinds:
            for start, end in getattr(mine, kind):
                ranges, used = self._kinds[kind], self._used[kind]
                if used == ranges.shape[1]:
                    ranges = self._kinds[kind] = np.concatenate([ranges, np.empty_like(ranges)], axis=1)
                ranges[:, used] = start, end, self.count
                self._used[kind] += 1

    def last_conflict(self, mine: Access) -> int:
        """The number of commands that must be complete before one with the accesses ``mine``."""
        return max(self._last("writes", (*mine.reads, *mine.writes)), self._last("reads", mine.writes))

    def _last(self, kind: str, ranges: Iterable[tuple[int, int]]) -> int:
        starts, ends, commands = self._kinds[kind][:, : self._used[kind]]
        met = [np.flatnonzero((starts < end) & (start < ends)) for start, end in ranges]
        return max((int(commands[places[-1]]) for places in met if places.size), default=0)


def with_waits(lines: Iterable[Line], config: Config) -> list[Line]:
    """The same lines with the least sufficient waits.

    An operand in rows apart counts with the bytes between its rows. Waits count the commands executed in a phase: a
    line whose counts differ between its phases becomes several, each for the phases that share them.
    """
    before = {phase: {wait: _Queue() for wait in WAITS} for phase in Phase}
    result = []
    for line in lines:
        command = line.command
        mine = access(command, config)
        masks: dict[tuple[int, ...], int] = {}
        for phase in Phase:
            if command.phase_mask & phase:
                waits = tuple(queue.last_conflict(mine) for queue in before[phase].values())
                masks[waits] = masks.get(waits, 0) | phase
                if command.opcode in UPDATES or command.opcode in COMPUTE:
                    before[phase][counted(command)].add(mine)
        for waits, mask in (masks or {(0,) * len(WAITS): 0}).items():
            fields = {**command.fields, "phase_mask": mask, **dict(zip(WAITS, waits, strict=True))}
            result.append(replace(line, command=Command(command.opcode, fields)))
    return result
