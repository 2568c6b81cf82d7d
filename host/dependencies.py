"""Which earlier commands a command must wait for, from the bytes that each reads and writes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..spec.commands import Command, Opcode
from ..spec.config import Config
from .assembler import Line

__all__ = ["Access", "access", "with_waits"]

_COMPUTE = range(Opcode.FORWARD, Opcode.UPDATE)


@dataclass(frozen=True)
class Access:
    """Byte ranges (start, end) that a command reads and writes; the input ring, which the device only reads,
    is left out."""

    reads: tuple[tuple[int, int], ...] = ()
    writes: tuple[tuple[int, int], ...] = ()

    def conflicts(self, later: "Access") -> bool:
        """Whether ``later`` must see what this one wrote, or must not overwrite what it uses."""
        return _meet(self.writes, later.reads + later.writes) or _meet(self.reads, later.writes)


def _meet(ranges, others):
    return any(start < other_end and other < end for start, end in ranges for other, other_end in others)


def access(c: Command, config: Config) -> Access:
    """What command ``c`` reads and writes."""
    operand = config.operand_bytes
    if c.opcode == Opcode.UPDATE:
        state = ((c.b_addr, operand * c.count), (c.c_addr, 2 * c.count), (c.out_addr, 4 * c.count))
        kept = tuple((start, start + size) for start, size in state)
        return Access(((c.a_addr, c.a_addr + operand * c.count), *kept), kept)
    if c.opcode not in _COMPUTE:
        return Access()
    x, y = c.n * c.h * c.w * c.c, c.n * c.oh * c.ow * c.q
    weights = c.q * (c.r * c.s * c.c + 1)
    sizes = {  # elements of a, b, out; b = 0: not used
        Opcode.FORWARD: (x, weights, y),
        Opcode.BACKWARD_DATA: (y, weights, x),
        Opcode.BACKWARD_WEIGHT: (x, y, weights),
        Opcode.MAXPOOL: (x, y, y),
        Opcode.MAXPOOL_BACKWARD: (y, y, x),
        Opcode.AVGPOOL: (x, 0, y),
        Opcode.AVGPOOL_BACKWARD: (y, 0, x),
    }[c.opcode]
    a, b, out = (
        (start, start + operand * size) for start, size in zip((c.a_addr, c.b_addr, c.out_addr), sizes, strict=True)
    )
    mask = ((c.c_addr, c.c_addr + operand * sizes[2]),) if c.c_mode else ()
    reads = (() if c.ring else (a,)) + mask
    if c.opcode == Opcode.MAXPOOL:
        return Access(reads, (b, out))
    return Access(reads + ((b,) if sizes[1] else ()), (out,))


def with_waits(lines: Iterable[Line], config: Config) -> list[Line]:
    """The same lines with the least sufficient ``wait_main`` and ``wait_update``.

    Waits count executed commands: they hold in every phase whose executed commands are all those
    up to some point of the program.
    """
    before: dict[str, list] = {"wait_main": [], "wait_update": []}
    result = []
    for line in lines:
        mine = access(line.command, config)
        waits = {}
        for queue, earlier in before.items():
            conflicts = (place for place in range(len(earlier), 0, -1) if earlier[place - 1].conflicts(mine))
            waits[queue] = next(conflicts, 0)
        result.append(replace(line, command=Command(line.command.opcode, {**line.command.fields, **waits})))
        if line.command.opcode == Opcode.UPDATE:
            before["wait_update"].append(mine)
        elif line.command.opcode in _COMPUTE:
            before["wait_main"].append(mine)
    return result
