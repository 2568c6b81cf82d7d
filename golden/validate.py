"""Checks of a command against the machine, as far as tiles and memory don't matter."""

from collections.abc import Mapping

from ..spec.commands import Adam, CMode, Command, Opcode, Source
from ..spec.config import Config
from ..spec.errors import ErrorCode
from ..spec.numerics import CONSTANT_MAX, operand_max, window_sizes
from ..spec.opcodes import (
    AVERAGES,
    BACKWARD,
    BACKWARD_WEIGHTS,
    COMPUTE,
    DEPTHWISE,
    GEMMS,
    MAXIMA,
    NORMS,
    POOLS,
    UPDATES,
    built,
)  # fmt: skip
from ..spec.operands import filter_pitch

__all__ = ["validate"]

_HYPERS = {Opcode.UPDATE: 3, Opcode.ADAM: len(Adam)}
_PRODUCT = 1 << 30
_SUMS_OF_PIXELS = (*BACKWARD_WEIGHTS, Opcode.NORM_SUMS)
_COUNT_VALUES = (Opcode.NORM_SUMS, Opcode.NORM_CONSTANTS, Opcode.NORM_BACKWARD)
"""Commands of batch norm that depend on the number of a channel's values."""


def _references(command: Command, config: Config) -> ErrorCode:
    """Tensor numbers, hyper-parameters, addresses: what can be told without knowing the layer."""
    g = command
    ids = [g.a_id, g.b_id, g.c_id, g.d_id, g.out_id, *[g.scale_id] * config.predicts]
    addresses = [g.a_addr, g.b_addr, g.c_addr, g.d_addr, g.out_addr, *[g.e_addr] * config.batch_norm]
    if max(ids) >= config.n_tensors:
        return ErrorCode.BAD_TENSOR
    if g.opcode in UPDATES and g.hyper + _HYPERS[g.opcode] > config.n_hyper:
        return ErrorCode.BAD_TENSOR
    unit = config.beat_bytes if g.opcode in UPDATES else config.operand_bytes
    if any(address % unit for address in addresses):
        return ErrorCode.BAD_ADDRESS
    ends = config.streams and g.opcode == Opcode.UPDATE
    return ErrorCode.BAD_GEOMETRY if ends and 0 < g.y_pitch < config.update_lanes else ErrorCode.NONE


def _geometry(command: Command, config: Config) -> ErrorCode:
    """The layer's shape: the same checks in the same order as the tile program's."""
    g = command
    if min(g.n, g.c, g.h, g.w, g.oh, g.ow, g.q, g.stride) == 0:
        return ErrorCode.BAD_GEOMETRY
    if min(g.nb, g.yb, g.cb, g.qb) == 0:
        return ErrorCode.BAD_TILE
    if config.dropout and g.opcode == Opcode.AVGPOOL and g.momentum and g.nb > 1 and g.yb < g.oh:
        return ErrorCode.BAD_TILE  # its pixels don't follow each other
    if g.pad_y >= g.r or g.pad_x >= g.s:
        return ErrorCode.BAD_GEOMETRY
    for size, out, kernel, pad in ((g.h, g.oh, g.r, g.pad_y), (g.w, g.ow, g.s, g.pad_x)):
        if (out - 1) * g.stride + kernel > size + 2 * pad:
            return ErrorCode.BAD_GEOMETRY
    if (g.opcode not in GEMMS and g.q != g.c) or 0 < g.y_pitch < g.q or 0 < g.x_pitch < g.c:
        return ErrorCode.BAD_GEOMETRY
    if g.opcode in NORMS and (g.r, g.s, g.stride, g.oh, g.ow) != (1, 1, 1, g.h, g.w):
        return ErrorCode.BAD_GEOMETRY
    channels = g.c if g.opcode in BACKWARD else g.q
    if g.opcode not in _SUMS_OF_PIXELS and any(0 < pitch < channels for pitch in _added_pitches(g, config)):
        return ErrorCode.BAD_GEOMETRY
    return _sizes(command, config)


def _added_pitches(command: Command, config: Config) -> tuple[int, int]:
    """Pitches of operands C and D."""
    return command.c_pitch, 0 if filter_pitch(command, config) else command.d_pitch


def _sizes(command: Command, config: Config) -> ErrorCode:
    """The sums and numbers that the hardware holds: products of 2^30 or more are beyond it, whatever they are for."""
    g = command
    taps = g.r * g.s
    filter_elements = taps * g.c
    channels = g.q if g.opcode == Opcode.BACKWARD_DATA else 1 if g.opcode in DEPTHWISE else g.c
    reduction = g.n * g.oh * g.ow if g.opcode in (*BACKWARD_WEIGHTS, *_COUNT_VALUES) else taps * channels
    apart = filter_pitch(g, config)
    if max(filter_elements, reduction) >= _PRODUCT or (apart and (g.bias or apart < filter_elements)):
        return ErrorCode.BAD_GEOMETRY
    longest = config.max_values if g.opcode in NORMS else config.max_reduction
    if g.opcode not in POOLS and reduction > longest:
        return ErrorCode.ACC_OVERFLOW
    operand = operand_max(config.operand_width)
    if g.opcode == Opcode.FORWARD and g.reorganise:
        if g.q > config.n_filters:
            return ErrorCode.BAD_GEOMETRY
        elements = window_sizes(g.oh, g.ow) * g.n
        if elements > config.max_average_taps:
            return ErrorCode.BAD_GEOMETRY if elements >= _PRODUCT else ErrorCode.ACC_OVERFLOW
    several = max(g.n, g.h, g.w, g.oh, g.ow, g.r, g.s) > 1  # pixels or taps
    if g.opcode == Opcode.REORGANISE and (several or g.c > 4 * config.n_filters):
        return ErrorCode.BAD_GEOMETRY
    if g.opcode in AVERAGES and taps * CONSTANT_MAX * operand >= 1 << (config.acc_width - 1):
        return ErrorCode.ACC_OVERFLOW
    if g.opcode in MAXIMA and taps > operand:
        return ErrorCode.BAD_GEOMETRY
    big, small = g.n * g.h * g.w, g.n * g.oh * g.ow
    tensors = [big * max(g.c, g.x_pitch), small * max(g.q, g.y_pitch)]
    if g.opcode not in _SUMS_OF_PIXELS:
        tensors.append((big if g.opcode in BACKWARD else small) * max(_added_pitches(g, config)))
    if g.opcode not in (*POOLS, *NORMS):
        tensors.append(g.q * (apart or (taps if g.opcode in DEPTHWISE else filter_elements) + 1))
    return ErrorCode.BAD_GEOMETRY if max(tensors) * config.operand_bytes >= _PRODUCT else ErrorCode.NONE


def _predicts(command: Command) -> bool:
    """Return whether the command takes hardware that only variants with a predictor have."""
    g = command
    if g.opcode in COMPUTE:
        return g.c_mode == CMode.SUB or bool(g.reorganise or g.predictor)
    return bool(g.quality or g.source or g.keep)


def validate(command: Command, config: Config, given: Mapping[str, int] | None = None) -> ErrorCode:
    """The error that ``command`` raises whatever its tiles and the memory hold, or NONE.

    ``given``: the compute and UPDATE commands before it, as its fields ``wait_main`` and ``wait_update`` count them.
    """
    if command.opcode not in COMPUTE and command.opcode not in UPDATES:
        return ErrorCode.NONE
    if command.opcode not in built(config):
        return ErrorCode.BAD_OPCODE
    if command.opcode in COMPUTE and command.c_mode not in tuple(CMode):
        return ErrorCode.BAD_OPCODE
    if _predicts(command) and not config.predicts:
        return ErrorCode.BAD_OPCODE
    if command.opcode == Opcode.UPDATE and command.source > (Source.RANDOM if config.random_signs else Source.ZERO):
        return ErrorCode.BAD_OPCODE
    if command.opcode in COMPUTE and command.predictor and (command.opcode not in GEMMS or command.reorganise):
        return ErrorCode.BAD_OPCODE
    clamped = config.clamps and command.opcode in COMPUTE and (command.bound_mantissa or command.slope)
    if clamped and (command.predictor or command.c_mode == CMode.ADD_MASK):
        return ErrorCode.BAD_OPCODE
    if given is not None and any(getattr(command, name) > count for name, count in given.items()):
        return ErrorCode.BAD_WAIT
    found = _references(command, config)
    if found == ErrorCode.NONE and command.opcode in COMPUTE:
        found = _geometry(command, config)
    return found
