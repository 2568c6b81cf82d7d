"""Conversion of real numbers to and from mantissas with a shared exponent (value = mantissa * 2^exponent)."""

import math

import numpy as np

from ...spec.numerics import BOUND_BITS, EXP_MAX, EXP_MIN, HEADROOM_BITS, operand_max

__all__ = [
    "FIRST_MOMENTUM", "bound_of", "constant", "dequantise", "exponent_for", "join_master", "master_exponent",
    "operand_type", "quantise", "split_master",
]  # fmt: skip

LOW_BITS = 16
"""Bits by which a master weight is finer than its operand copy."""
FIRST_MOMENTUM = -32
"""The exponent of zero momentum before a gradient is known.

The batch that calibrates takes the gradient's if that is larger, and it nearly always is. Where it has no gradient, as
in a residual branch that begins at zero, the next batches start from here, and each can go up by some bits only.
"""


def operand_type(width: int) -> np.dtype:
    """The little-endian numpy type of a ``width``-bit operand."""
    return np.dtype(f"<i{width // 8}")


def exponent_for(largest: float, width: int, headroom: int = 0) -> int:
    """The exponent at which magnitudes up to ``largest`` use ``width - 1 - headroom`` bits.

    It is at least EXP_MIN. All zeros are taken for magnitudes below 1, which later values may have.

    Raises ValueError for a magnitude that is infinite or needs more than
    EXP_MAX.
    """
    if not math.isfinite(largest):
        raise ValueError(f"a tensor's largest magnitude must be finite, not {largest!r}")
    exponent = math.frexp(largest)[1] + headroom - (width - 1)
    if exponent > EXP_MAX:
        raise ValueError(f"a magnitude of {largest!r} needs the exponent {exponent}, above {EXP_MAX}")
    return max(EXP_MIN, exponent)


def quantise(values: np.ndarray, exponent: int, width: int) -> np.ndarray:
    """Mantissas of ``values`` at ``exponent``: rounded half to even, saturated symmetrically."""
    limit = operand_max(width)
    mantissas = np.rint(np.ldexp(np.asarray(values, np.float64), -exponent))
    return np.clip(mantissas, -limit, limit).astype(operand_type(width))


def dequantise(mantissas: np.ndarray, exponent: int) -> np.ndarray:
    """The float64 values of mantissas."""
    return np.ldexp(mantissas.astype(np.float64), exponent)


def master_exponent(weights: np.ndarray, width: int) -> int:
    """The exponent of freshly imported weights, with the headroom that a commit leaves."""
    return exponent_for(float(np.abs(weights).max(initial=0.0)), width, HEADROOM_BITS)


def split_master(weights: np.ndarray, exponent: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Operand copy ``hi`` and signed remainder ``lo`` of the master mantissas, m = hi * 2^16 + lo."""
    limit = (operand_max(width) << LOW_BITS) + (1 << (LOW_BITS - 1)) - 1
    master = np.clip(np.rint(np.ldexp(np.asarray(weights, np.float64), LOW_BITS - exponent)), -limit, limit)
    master = master.astype(np.int64)
    high = (master + (1 << (LOW_BITS - 1))) >> LOW_BITS
    return high.astype(operand_type(width)), (master - (high << LOW_BITS)).astype("<i2")


def join_master(high: np.ndarray, low: np.ndarray, exponent: int) -> np.ndarray:
    """The float64 values of master weights."""
    return np.ldexp((high.astype(np.int64) << LOW_BITS) + low.astype(np.float64), exponent - LOW_BITS)


def constant(value: float, bits: int = 16) -> tuple[int, int]:
    """(mantissa, exponent) nearest to ``value`` with an unsigned mantissa of ``bits`` bits.

    Powers of two are exact, with mantissa 1.

    Raises ValueError for negative or infinite values, and those whose exponent doesn't fit 8 bits.
    """
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"a constant must be finite and not negative, not {value!r}")
    if value == 0:
        return 0, 0
    fraction, exponent = math.frexp(value)
    mantissa, exponent = round(math.ldexp(fraction, bits)), exponent - bits
    while mantissa % 2 == 0:
        mantissa, exponent = mantissa // 2, exponent + 1
    if not EXP_MIN <= exponent <= EXP_MAX:
        raise ValueError(f"{value!r} needs the exponent {exponent}, which is outside {EXP_MIN}..{EXP_MAX}")
    return mantissa, exponent


def bound_of(value: float) -> tuple[int, int]:
    """(mantissa, exponent) of a bound above 0, with all bits of the mantissa in use."""
    mantissa, exponent = constant(value, BOUND_BITS)
    unused = BOUND_BITS - mantissa.bit_length()
    return mantissa << unused, exponent - unused
