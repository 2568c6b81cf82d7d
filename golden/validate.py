"""What makes a command illegal on a machine, as far as tiles and memory don't matter."""

from ..spec.commands import Command, Opcode
from ..spec.config import Config
from ..spec.errors import ErrorCode
from .operands import COMPUTE

__all__ = ["validate"]

_POOLS = range(Opcode.MAXPOOL, Opcode.UPDATE)
_HYPER_PER_UPDATE = 3


def _references(command: Command, config: Config) -> ErrorCode:
    """Tensor numbers, hyper-parameters, addresses: what can be told without knowing the layer."""
    g = command
    update = g.opcode == Opcode.UPDATE
    if max(g.a_id, g.b_id, g.c_id, g.out_id) >= config.n_tensors:
        return ErrorCode.BAD_TENSOR
    if update and g.hyper + _HYPER_PER_UPDATE > config.n_hyper:
        return ErrorCode.BAD_TENSOR
    unit = config.beat_bytes if update else config.operand_bytes
    if any(address % unit for address in (g.a_addr, g.b_addr, g.c_addr, g.out_addr)):
        return ErrorCode.BAD_ADDRESS
    return ErrorCode.NONE


def _geometry(command: Command, config: Config) -> ErrorCode:
    """The layer's shape: the same checks in the same order as the tile program's."""
    g = command
    if min(g.n, g.c, g.h, g.w, g.oh, g.ow, g.q, g.r, g.s, g.stride) == 0:
        return ErrorCode.BAD_GEOMETRY
    if min(g.nb, g.yb, g.cb, g.qb) == 0:
        return ErrorCode.BAD_TILE
    if g.pad_y >= g.r or g.pad_x >= g.s:
        return ErrorCode.BAD_GEOMETRY
    for size, out, kernel, pad in ((g.h, g.oh, g.r, g.pad_y), (g.w, g.ow, g.s, g.pad_x)):
        if (out - 1) * g.stride + kernel > size + 2 * pad:
            return ErrorCode.BAD_GEOMETRY
    if g.opcode in _POOLS:
        return ErrorCode.BAD_GEOMETRY if g.q != g.c else ErrorCode.NONE
    channels = g.q if g.opcode == Opcode.BACKWARD_DATA else g.c
    reduction = g.n * g.oh * g.ow if g.opcode == Opcode.BACKWARD_WEIGHT else g.r * g.s * channels
    return ErrorCode.ACC_OVERFLOW if reduction > config.max_reduction else ErrorCode.NONE


def validate(command: Command, config: Config) -> ErrorCode:
    """The error that ``command`` raises whatever its tiles and the memory hold, or NONE."""
    if command.opcode not in COMPUTE and command.opcode != Opcode.UPDATE:
        return ErrorCode.NONE
    found = _references(command, config)
    if found == ErrorCode.NONE and command.opcode in COMPUTE:
        found = _geometry(command, config)
    return found
