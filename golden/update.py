"""SGD with momentum and weight decay on 32-bit master weights, in integers."""

from dataclasses import dataclass

import numpy as np

from ..spec.numerics import UPDATE_GUARD_BITS, operand_max, unpredicted
from .epilogue import top_of
from .requantise import requantise, round_shift, saturate

__all__ = ["Hyper", "UpdateExponents", "UpdateResult", "update"]

_ALIGN_WIDTH = 56
_ALIGN_RIGHT, _ALIGN_LEFT = 63, 40
_LOW_BITS = 16
"""Bits that a master weight (and a momentum) has below an operand's LSB."""
_V_MAX = (1 << 31) - 1
_CHUNK = 1 << 15
"""Weights handled at a time, so that temporaries stay in the cache."""


@dataclass(frozen=True)
class Hyper:
    """A hyper-parameter: ``mantissa * 2^exponent``, mantissa unsigned."""

    mantissa: int
    exponent: int


@dataclass(frozen=True)
class UpdateExponents:
    """Exponents of gradient, weight (now and as written), momentum (now and as written)."""

    g: int
    w: int
    w_next: int
    v: int
    v_next: int

    def dry(self) -> "UpdateExponents":
        """The exponents of calibration's first pass."""
        return UpdateExponents(self.g, self.w, self.w, self.v, max(self.g, self.v))


@dataclass(frozen=True)
class UpdateResult:
    """New arrays; tops of momentum and weights as in :class:`.epilogue.Result`; how many were cut."""

    hi: np.ndarray
    lo: np.ndarray
    v: np.ndarray
    top_v: int | None
    top_w: int | None
    saturations: int


def _align(x: np.ndarray, shift: int) -> np.ndarray:
    """``x * 2^shift``, rounded half to even, saturated: a term at the sum's binary point."""
    return requantise(x, -max(-_ALIGN_RIGHT, min(_ALIGN_LEFT, shift)), _ALIGN_WIDTH)


def _step(g, w, v, exps: UpdateExponents, hyper: tuple[Hyper, Hyper, Hyper], frozen):
    """Unsaturated new momentum and weight (the latter of the saturated momentum), int64.

    ``frozen``: where there is no gradient; momentum and weight only get their new exponents.
    """
    rate, momentum, decay = hyper
    guard = UPDATE_GUARD_BITS
    t = _align(g, exps.g - exps.v_next + _LOW_BITS + guard)
    if momentum.mantissa:
        t += _align(momentum.mantissa * v, momentum.exponent + exps.v - exps.v_next + guard)
    if decay.mantissa:
        t += _align(decay.mantissa * w, decay.exponent + exps.w - exps.v_next + guard)
    v = round_shift(np.where(frozen, _align(v, exps.v - exps.v_next + guard), t), guard)
    cut, cuts = saturate(v, _V_MAX)
    u = _align(w, exps.w - exps.w_next + guard)
    u -= np.where(frozen, 0, _align(rate.mantissa * cut, rate.exponent + exps.v_next - exps.w_next + guard))
    return v, cut, cuts, round_shift(u, guard)


def update(g, hi, lo, v, exps: UpdateExponents, hyper: tuple[Hyper, Hyper, Hyper], operand_width: int) -> UpdateResult:
    """One step on arrays of equal length: gradients, weight halves and momentum, any integer dtype.

    ``hyper``: learning rate, momentum, weight decay. Weights without a gradient stay. In a dry pass give
    ``exps.dry()`` and drop the arrays and the count.
    """
    w_max = (operand_max(operand_width) << _LOW_BITS) + (1 << (_LOW_BITS - 1)) - 1
    new_hi, new_lo, new_v = np.empty_like(hi), np.empty_like(lo), np.empty_like(v)
    largest_v = largest_w = 0
    saturations = 0
    for at in range(0, len(g), _CHUNK):
        part = slice(at, at + _CHUNK)
        g_, hi_, lo_, v_ = (x[part].astype(np.int64) for x in (g, hi, lo, v))
        frozen = g_ == unpredicted(operand_width)
        v_free, v_cut, v_cuts, w_free = _step(g_, (hi_ << _LOW_BITS) + lo_, v_, exps, hyper, frozen)
        w_cut, w_cuts = saturate(w_free, w_max)
        half = (w_cut + (1 << (_LOW_BITS - 1))) >> _LOW_BITS
        new_hi[part], new_lo[part], new_v[part] = half, w_cut - (half << _LOW_BITS), v_cut
        largest_v = max(largest_v, int(np.abs(v_free).max()))
        largest_w = max(largest_w, int(np.abs(w_free).max()))
        saturations += v_cuts + w_cuts
    top_v, top_w = top_of(largest_v, exps.v_next - _LOW_BITS), top_of(largest_w, exps.w_next - _LOW_BITS)
    return UpdateResult(new_hi, new_lo, new_v, top_v, top_w, saturations)
