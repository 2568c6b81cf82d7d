"""What makes a command illegal on a machine, as far as tiles and memory don't matter."""

from collections.abc import Mapping

from ..spec.commands import CMode, Command, Opcode
from ..spec.config import Config
from ..spec.errors import ErrorCode
from ..spec.numerics import CONSTANT_MAX, operand_max
from .operands import COMPUTE

__all__ = ["validate"]

_POOLS = range(Opcode.MAXPOOL, Opcode.UPDATE)
_MAXIMA = (Opcode.MAXPOOL, Opcode.MAXPOOL_BACKWARD)
_AVERAGES = (Opcode.AVGPOOL, Opcode.AVGPOOL_BACKWARD)
_HYPER_PER_UPDATE = 3
_PRODUCT = 1 << 30


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
    if min(g.n, g.c, g.h, g.w, g.oh, g.ow, g.q, g.stride) == 0:
        return ErrorCode.BAD_GEOMETRY
    if min(g.nb, g.yb, g.cb, g.qb) == 0:
        return ErrorCode.BAD_TILE
    if g.pad_y >= g.r or g.pad_x >= g.s:
        return ErrorCode.BAD_GEOMETRY
    for size, out, kernel, pad in ((g.h, g.oh, g.r, g.pad_y), (g.w, g.ow, g.s, g.pad_x)):
        if (out - 1) * g.stride + kernel > size + 2 * pad:
            return ErrorCode.BAD_GEOMETRY
    if g.opcode in _POOLS and g.q != g.c:
        return ErrorCode.BAD_GEOMETRY
    return _sizes(command, config)


def _sizes(command: Command, config: Config) -> ErrorCode:
    """What sums and numbers the hardware holds: products of 2^30 or more are beyond it, whatever they are for."""
    g = command
    taps = g.r * g.s
    filter_elements = taps * g.c
    channels = g.q if g.opcode == Opcode.BACKWARD_DATA else g.c
    reduction = g.n * g.oh * g.ow if g.opcode == Opcode.BACKWARD_WEIGHT else taps * channels
    if max(filter_elements, reduction) >= _PRODUCT:
        return ErrorCode.BAD_GEOMETRY
    if g.opcode not in _POOLS and reduction > config.max_reduction:
        return ErrorCode.ACC_OVERFLOW
    operand = operand_max(config.operand_width)
    if g.opcode in _AVERAGES and taps * CONSTANT_MAX * operand >= 1 << (config.acc_width - 1):
        return ErrorCode.ACC_OVERFLOW
    if g.opcode in _MAXIMA and taps > operand:
        return ErrorCode.BAD_GEOMETRY
    tensors = [g.n * g.h * g.w * g.c, g.n * g.oh * g.ow * g.q]
    if g.opcode not in _POOLS:
        tensors.append(g.q * (filter_elements + 1))
    return ErrorCode.BAD_GEOMETRY if max(tensors) * config.operand_bytes >= _PRODUCT else ErrorCode.NONE


def validate(command: Command, config: Config, given: Mapping[str, int] | None = None) -> ErrorCode:
    """The error that ``command`` raises whatever its tiles and the memory hold, or NONE.

    ``given``: the compute and UPDATE commands before it, as its fields ``wait_main`` and ``wait_update`` count them.
    """
    if command.opcode not in COMPUTE and command.opcode != Opcode.UPDATE:
        return ErrorCode.NONE
    if command.opcode in COMPUTE and command.c_mode not in tuple(CMode):
        return ErrorCode.BAD_OPCODE
    if given is not None and any(getattr(command, name) > count for name, count in given.items()):
        return ErrorCode.BAD_WAIT
    found = _references(command, config)
    if found == ErrorCode.NONE and command.opcode in COMPUTE:
        found = _geometry(command, config)
    return found
