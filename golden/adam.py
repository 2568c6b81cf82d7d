"""Adam on the predictor's 32-bit master weights, in integers (paper, section 5.2: the predictor's optimiser).

A second moment is kept as a square: its value is mantissa * 2^(2 * exponent - 14), so that its root, of 22 bits, has 7
bits below an operand's LSB, and its exponent follows the rule for operands. First moments are as momenta.
"""

from dataclasses import dataclass
from math import isqrt

import numpy as np

from ..spec.numerics import UNIT_FRACTION, UPDATE_GUARD_BITS, operand_max
from .epilogue import top_of
from .requantise import requantise, round_shift, saturate
from .update import Hyper

__all__ = ["AdamExponents", "AdamResult", "Powers", "adam", "step_rate"]

_LOW_BITS = 16
_ROOT_LOW_BITS = 7
_M_MAX = (1 << 31) - 1
_S_MAX = (1 << 44) - 1
_ALIGN_WIDTH = 56
_ALIGN_RIGHT, _ALIGN_LEFT = 63, 40
_RATIO_LOW_BITS, _RATIO_MAX = 16, (1 << 23) - 1
"""A first moment over a root: fraction bits, and where it saturates (128)."""


def _align(x, shift):
    return requantise(x, -max(-_ALIGN_RIGHT, min(_ALIGN_LEFT, shift)), _ALIGN_WIDTH)


@dataclass(frozen=True)
class Powers:
    """The betas to the power of the steps taken, as fractions of 2^32; at first 1, as near as 32 bits come."""

    first: int = UNIT_FRACTION
    second: int = UNIT_FRACTION

    def after(self, beta1: Hyper, beta2: Hyper) -> "Powers":
        """Powers after one more step. Betas are below 1, their exponents -16."""
        return Powers(self.first * beta1.mantissa >> 16, self.second * beta2.mantissa >> 16)


def step_rate(rate: Hyper, powers: Powers) -> Hyper:
    """The learning rate with both bias corrections: rate * sqrt(1 - beta2^t) / (1 - beta1^t), cut to 16 bits."""
    root = isqrt((UNIT_FRACTION - powers.second) << 14)  # of 23 fraction bits
    rest = (UNIT_FRACTION - powers.first) >> 8  # 24
    product = rate.mantissa * ((root << 25) // rest)
    shift = max(0, product.bit_length() - 16)
    return Hyper(product >> shift, rate.exponent - 24 + shift)


@dataclass(frozen=True)
class AdamExponents:
    """Exponents of gradient, weight, first and second moment (each but the gradient's: now and as written)."""

    g: int
    w: int
    w_next: int
    m: int
    m_next: int
    s: int
    s_next: int

    def dry(self) -> "AdamExponents":
        """The exponents of calibration's first pass."""
        return AdamExponents(self.g, self.w, self.w, self.m, max(self.g, self.m), self.s, max(self.g, self.s))


@dataclass(frozen=True)
class AdamResult:
    """New arrays, tops of weights, first moments and roots, and how many results were cut."""

    hi: np.ndarray
    lo: np.ndarray
    m: np.ndarray
    s: np.ndarray
    top_w: int | None
    top_m: int | None
    top_s: int | None
    saturations: int


def _roots(s: np.ndarray) -> np.ndarray:
    """Integer square roots."""
    root = np.sqrt(s.astype(np.float64)).astype(np.int64)
    root -= root * root > s  # a double's root may be one off
    root += (root + 1) * (root + 1) <= s
    return root


def adam(g, hi, lo, m, s, exps: AdamExponents, rate: Hyper, betas, complements, epsilon: int, width: int) -> AdamResult:
    """One step on arrays of equal length; ``rate`` is that of :func:`step_rate`.

    ``betas``, ``complements``: of both moments, what the old one and what the gradient is multiplied with (exponents
    -16). ``epsilon``: the least root, in its LSBs; at least 1.
    """
    guard = UPDATE_GUARD_BITS
    g, hi, lo, m, s = (x.astype(np.int64) for x in (g, hi, lo, m, s))
    s &= _S_MAX
    w = (hi << _LOW_BITS) + lo
    (b1, b2), (c1, c2) = betas, complements
    t = _align(b1.mantissa * m, b1.exponent + exps.m - exps.m_next + guard)
    t += _align(c1.mantissa * g, c1.exponent + exps.g - exps.m_next + _LOW_BITS + guard)
    m_free = round_shift(t, guard)
    m_new, m_cuts = saturate(m_free, _M_MAX)
    t = _align(b2.mantissa * s, b2.exponent + 2 * (exps.s - exps.s_next) + guard)
    t += _align(c2.mantissa * (g * g), c2.exponent + 2 * (exps.g - exps.s_next) + 2 * _ROOT_LOW_BITS + guard)
    s_free = round_shift(t, guard)
    s_new, s_cuts = saturate(s_free, _S_MAX)
    root = np.maximum(_roots(s_new), max(epsilon, 1))
    # first / root, rounded towards zero
    shift = exps.m_next - _LOW_BITS - exps.s_next + _ROOT_LOW_BITS + _RATIO_LOW_BITS
    ratio = np.minimum(_align(np.abs(m_new), shift) // root, _RATIO_MAX) * np.sign(m_new)
    u = _align(w, exps.w - exps.w_next + guard)
    u -= _align(rate.mantissa * ratio, rate.exponent - _RATIO_LOW_BITS - exps.w_next + _LOW_BITS + guard)
    w_free = round_shift(u, guard)
    w_new, w_cuts = saturate(w_free, (operand_max(width) << _LOW_BITS) + (1 << (_LOW_BITS - 1)) - 1)
    half = (w_new + (1 << (_LOW_BITS - 1))) >> _LOW_BITS

    def top(values, exponent):
        return top_of(int(np.abs(values).max(initial=0)), exponent)

    return AdamResult(
        half, w_new - (half << _LOW_BITS), m_new, s_new, top(w_free, exps.w_next - _LOW_BITS),
        top(m_free, exps.m_next - _LOW_BITS), top(_roots(np.maximum(s_free, 0)), exps.s_next - _ROOT_LOW_BITS),
        m_cuts + s_cuts + w_cuts,
    )  # fmt: skip
