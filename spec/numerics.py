"""Numbers that golden model and hardware must share: exponents, shifts, rounding limits."""

__all__ = [
    "BOUND_BITS", "BOUND_SHIFT", "CHANNELS", "CONSTANT_MAX", "EXP_MAX", "EXP_MIN", "HEADROOM_BITS", "HIDDEN", "KERNEL",
    "MEAN_SHIFT", "SHIFT_MAX", "SHIFT_MIN", "SLOPE_BITS", "TENSOR_BYTES", "UNIT_FRACTION", "UPDATE_GUARD_BITS",
    "WINDOWS", "ZERO_STEP", "operand_max", "unpredicted", "window_sizes",
]  # fmt: skip

EXP_MIN, EXP_MAX = -128, 127
"""Range of a tensor's exponent (8-bit two's complement)."""

SHIFT_MIN, SHIFT_MAX = -16, 63
"""Range of a requantise shift (positive: right); shifts outside are clamped to it."""

HEADROOM_BITS = 1
"""Bits left free above the largest magnitude of the last batch when an exponent is committed."""

ZERO_STEP = 8
"""Steps by which the exponent of a tensor that was all zero moves down, in search of lost values."""

UPDATE_GUARD_BITS = 8
"""Fraction bits below the result's LSB that the terms of an update are rounded to before adding."""

CONSTANT_MAX = (1 << 16) - 1
"""Largest mantissa of AVGPOOL's constant factor."""

BOUND_BITS, SLOPE_BITS = 16, 16
"""Bits of the mantissa of a bound, and of a slope, which is a fraction."""

BOUND_SHIFT = 40
"""Shifts of bounds are clamped to plus or minus this."""

WINDOWS = 2
"""Windows into which a layer's output is cut for the predictor, in each direction."""

CHANNELS, KERNEL = 3, 3
"""Output channels of the predictor's convolution."""

HIDDEN = CHANNELS * WINDOWS * WINDOWS
"""Values between the predictor's two layers."""

MEAN_SHIFT = 3
"""Share of the newest gradient in an exponential mean of true ones: 2^-MEAN_SHIFT."""

UNIT_FRACTION = (1 << 32) - 1
"""1 as a fraction of 2^32, as near as 32 bits come: the power of Adam's betas before its first step."""

TENSOR_BYTES = 1 << 30
"""Tensors that a compute command reads or writes are smaller."""


def operand_max(width: int) -> int:
    """Largest magnitude of a ``width``-bit mantissa; saturation is symmetric, so -max is the least."""
    return (1 << (width - 1)) - 1


def unpredicted(width: int) -> int:
    """Mark in place of a gradient's ``width``-bit mantissa: there is none, the weight stays. No result is that low."""
    return -(1 << (width - 1))


def window_sizes(height: int, width: int) -> int:
    """Elements in each window."""
    return max(1, height // WINDOWS) * max(1, width // WINDOWS)
