"""Quality of a predicted gradient: exact sums, cosine against a threshold, and the scale of the targets."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..spec.numerics import unpredicted

__all__ = ["Quality", "QualitySums", "passes", "quality_sums", "rms_exponent", "votes"]

MANTISSA_BITS = 16
"""Bits of the magnitudes that the gate compares."""
SHIFT_MAX = 16
"""Exponents of error and target that are further apart are taken to be this far apart."""


@dataclass(frozen=True)
class QualitySums:
    """Sums of e*e, e*t, t*t over errors e (predicted - true) and true gradients t, in mantissas, and their number."""

    ee: int
    et: int
    tt: int
    count: int


@dataclass(frozen=True)
class Quality:
    """Quality of a layer's prediction: the sums, and the exponents of error and (normalised) gradient."""

    sums: QualitySums
    e_exponent: int
    t_exponent: int


def quality_sums(error: np.ndarray, target: np.ndarray, operand_width: int) -> QualitySums:
    """Exact sums over all elements that are predicted."""
    there = error != unpredicted(operand_width)
    e, t = error[there].astype(np.int64), target[there].astype(np.int64)
    return QualitySums(int((e * e).sum()), int((e * t).sum()), int((t * t).sum()), int(there.sum()))


def _normalised(value: int) -> tuple[int, int]:
    """The upper MANTISSA_BITS of a magnitude, and the exponent that goes with them."""
    shift = max(0, value.bit_length() - MANTISSA_BITS)
    return value >> shift, shift


def passes(sums: QualitySums, e_exponent: int, t_exponent: int, threshold: tuple[int, int]) -> bool:
    """Return whether the cosine of predicted and true gradient is positive, its square at least ``threshold``.

    ``threshold`` is a mantissa (below 2^16) and an exponent. Nothing is divided: dot^2 >= threshold * |p|^2 * |t|^2,
    with each factor cut to its upper 16 bits.
    """
    d = max(-SHIFT_MAX, min(SHIFT_MAX, e_exponent - t_exponent))
    up, down = max(d, 0), max(-d, 0)  # in units of the lower exponent
    ee, et, tt = sums.ee << 2 * up, sums.et << up + down, sums.tt << 2 * down
    dot, predicted = et + tt, ee + 2 * et + tt
    if dot <= 0:
        return False
    (dot_m, dot_e), (p_m, p_e), (t_m, t_e) = map(_normalised, (dot, predicted, tt))
    mantissa, exponent = threshold
    left, right = dot_m * dot_m, mantissa * p_m * t_m
    shift = 2 * dot_e - (p_e + t_e + exponent)
    return left << max(shift, 0) >= right << max(-shift, 0)


def votes(layers: Iterable[Quality], threshold: tuple[int, int]) -> bool:
    """Return whether layers with more than half of the predicted weights pass."""
    passing = total = 0
    for layer in layers:
        total += layer.sums.count
        passing += layer.sums.count * passes(layer.sums, layer.e_exponent, layer.t_exponent, threshold)
    return 2 * passing > total


def rms_exponent(sums: QualitySums, exponent: int) -> int:
    """The power of two near the root of the mean square of the true gradient, from bit lengths alone."""
    return ((sums.tt.bit_length() - sums.count.bit_length()) >> 1) + exponent
