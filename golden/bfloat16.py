"""bfloat16 products and float32 sums as integers, bit for bit: the arithmetic of the floating-point PE.

A number is its pattern as int64: 16 bits of bfloat16 (sign, 8 exponent bits, 7 fraction bits), 32 of float32. There
are no subnormals, as in Intel's definition of bfloat16 for hardware (BFLOAT16 - Hardware Numerics Definition, 2018):
an operand with exponent 0 is a zero of its sign, and so is a result below 2^-126. Every NaN that comes out is
0x7fc00000. Rounding is to nearest, ties to even; overflow gives an infinity.
"""

import numpy as np

from .requantise import round_shift

__all__ = ["NAN", "accumulate", "add", "matmul", "multiply"]

NAN = 0x7FC00000
"""The only NaN that is a result."""

_INFINITY = 0x7F800000
_WIDTH = 55
"""Bits to which a magnitude is normalised before it is rounded to 24."""
_APART = 26
"""Exponents further apart than this don't change how a sum is rounded, as long as something is left of the smaller."""


def _unpacked(x, fraction):
    """Sign, significand (0 for zeros and subnormals) and exponent of its last place; what isn't finite, and NaNs."""
    exponent, low = x >> fraction & 0xFF, x & ((1 << fraction) - 1)
    significand = np.where(exponent == 0, 0, low | 1 << fraction)
    special = exponent == 0xFF
    return x >> (fraction + 8) & 1, significand, exponent - 127 - fraction, special, special & (low != 0)


def _packed(sign, magnitude, exponent):
    """The float32 nearest to ``magnitude * 2^exponent`` (``0 <= magnitude < 2^53``), with a sign."""
    length = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
    rounded = round_shift(magnitude << (_WIDTH - length), _WIDTH - 24)
    biased = exponent + length - 1 + 127 + (rounded >> 24)  # a fraction of ones may become the next power of two
    bits = np.where(biased <= 0, 0, biased << 23 | rounded & ((1 << 23) - 1))
    bits = np.where(magnitude == 0, 0, np.where(biased >= 0xFF, _INFINITY, bits))
    return sign << 31 | bits


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a * b`` of bfloat16 as float32: exact, but for overflow and for what would be subnormal."""
    (sign_a, m_a, e_a, special_a, nan_a), (sign_b, m_b, e_b, special_b, nan_b) = (_unpacked(x, 7) for x in (a, b))
    sign = sign_a ^ sign_b
    product = _packed(sign, m_a * m_b, e_a + e_b)
    product = np.where(special_a | special_b, sign << 31 | _INFINITY, product)
    return np.where(nan_a | nan_b | special_a & (m_b == 0) | special_b & (m_a == 0), NAN, product)


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a + b`` of float32, rounded once."""
    swap = (a & 0x7FFFFFFF) < (b & 0x7FFFFFFF)
    large, small = np.where(swap, b, a), np.where(swap, a, b)
    sign, m_large, e_large, special, nan = _unpacked(large, 23)
    other, m_small, e_small, special_small, _ = _unpacked(small, 23)
    apart = np.minimum(e_large - e_small, _APART + 1)
    aligned = np.where(apart <= _APART, m_small << np.maximum(_APART - apart, 0), m_small != 0)
    total = (m_large << _APART) + np.where(sign == other, aligned, -aligned)
    result = _packed(np.where(total == 0, sign & other, sign), total, e_large - _APART)
    result = np.where(special, sign << 31 | _INFINITY, result)
    return np.where(nan | special & special_small & (sign != other), NAN, result)


def accumulate(psum: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Result of a PE: the psum from above plus a product."""
    return add(psum, multiply(a, b))


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a [m, k] @ b [k, n]`` of bfloat16 as float32, added up from +0 in the order of k, as a column of PEs does."""
    psum = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for k in range(a.shape[1]):
        psum = accumulate(psum, a[:, k, None], b[None, k])
    return psum
