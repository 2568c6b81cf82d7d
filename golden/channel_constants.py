"""Batch norm's constants of one channel, from its exact sums, in Python's integers.

A number in floating point is a mantissa with an exponent. Magnitudes are shifted and cut towards zero, signs apart,
unless ``rounded`` says otherwise.
"""

from dataclasses import dataclass
from math import isqrt

from ..spec.norm import LEAST_EXPONENT, MOMENTUM_BITS, ZERO, NormConstants, Number, State

__all__ = [
    "Affine", "Backward", "Forward", "backward_constants", "forward_constants", "running_constants", "running_state",
]  # fmt: skip

_NUMBER_BITS = 31
"""Bits of the magnitude of a number in floating point."""
_GRADIENT_BITS = 24
_FACTOR_BITS = 16
"""Bits of the magnitudes of A, P and Q, which multiply operands."""
_MEAN_FRACTION = 31
"""Fraction bits of a mean in LSBs of x, and places by which beta's LSB may lie above A * x's."""
_MEAN_MAX = (1 << 46) - 1
_SQUARE_BITS = 48
_EPSILON_LEFT = 79
"""Places by which epsilon is moved up at most."""
_SQUARE_FRACTION = 16
"""Bits of epsilon below the LSB of n * S2 - S1 * S1."""
_Q_BITS, _Q_SHIFT_MAX = 16, 14


@dataclass(frozen=True)
class Affine:
    """Gamma and beta, with their exponent."""

    gamma: int
    beta: int
    exponent: int


@dataclass(frozen=True)
class Forward:
    """y = (a * x + b) * 2^(a_exponent + exponent of x); 1 / sqrt(V) = inverse * 2^inverse_exponent; ``sum`` is S1."""

    a: int
    a_exponent: int
    b: int
    inverse: int
    inverse_exponent: int
    sum: int


@dataclass(frozen=True)
class Backward:
    """dX = (p * g + (q * x << q_shift) + r) * 2^(p_exponent + exponent of g); dgamma is ``gradient``."""

    p: int
    p_exponent: int
    q: int
    q_shift: int
    r: int
    gradient: Number


def _shifted(value: int, shift: int) -> int:
    """``value * 2^shift``, cut towards zero."""
    magnitude = abs(value) << shift if shift >= 0 else abs(value) >> -shift
    return -magnitude if value < 0 else magnitude


def _rounded(value: int, shift: int) -> int:
    """``value / 2^shift``, rounded half up."""
    return (value + ((1 << shift) >> 1)) >> shift


def _factor(value: int, shift: int) -> int:
    """``value / 2^shift`` as a factor: rounded half away from zero, and saturated."""
    magnitude = min(_rounded(abs(value), shift), (1 << _FACTOR_BITS) - 1)
    return -magnitude if value < 0 else magnitude


def _normalised(value: int, exponent: int, bits: int = _NUMBER_BITS) -> Number:
    """``value * 2^exponent`` with a mantissa of ``bits`` bits, and a sign."""
    shift = abs(value).bit_length() - bits
    return Number(_shifted(value, -shift), exponent + shift) if value else ZERO


def _inverse_root(square: Number, epsilon: Number) -> Number:
    """1 / sqrt(square + epsilon), of 23 bits or just 2^23."""
    place = square.exponent - _SQUARE_FRACTION
    cut = max(0, epsilon.exponent - place - _EPSILON_LEFT)  # then the square is beneath epsilon
    exponent = place + cut
    total = _shifted(square.mantissa, _SQUARE_FRACTION - cut) + _shifted(epsilon.mantissa, epsilon.exponent - exponent)
    total = max(total, 1)
    shift = total.bit_length() - _SQUARE_BITS
    shift += (shift + exponent) & 1
    root = isqrt(_shifted(total, -shift))
    return Number((1 << _SQUARE_BITS - 2) // root, -(_SQUARE_BITS - 2) - (shift + exponent) // 2)


def _forward(inverse: Number, n: int, mean: int, total: int, affine: Affine, x_exponent: int) -> Forward:
    """Constants of the forward pass; ``mean`` in 2^-31 LSBs of x."""
    product, exponent = affine.gamma * n * inverse.mantissa, affine.exponent + inverse.exponent
    least = affine.exponent - x_exponent - _MEAN_FRACTION
    shift = max(0, product.bit_length() - _FACTOR_BITS, least - exponent)
    a, a_exponent = _factor(product, shift), exponent + shift
    offset = _shifted(affine.beta, affine.exponent - x_exponent - a_exponent + _MEAN_FRACTION)
    b = _rounded(offset - a * mean, _MEAN_FRACTION)
    return Forward(a, a_exponent, b, inverse.mantissa, inverse.exponent, total)


def _mean(total: int, n: int) -> int:
    magnitude = (abs(total) << _MEAN_FRACTION) // n
    return -magnitude if total < 0 else magnitude


def forward_constants(sums: tuple[int, int], affine: Affine, x_exponent: int, constants: NormConstants) -> Forward:
    """Constants of the forward pass of a batch, from its sums of x and of x * x."""
    n, (total, squares) = constants.n, sums
    variance = Number(n * squares - total * total, 2 * x_exponent)
    return _forward(_inverse_root(variance, constants.epsilon), n, _mean(total, n), total, affine, x_exponent)


def running_constants(state: State, affine: Affine, x_exponent: int, constants: NormConstants) -> Forward:
    """Constants of the forward pass, from running statistics."""
    place = state.mean.exponent - x_exponent + _MEAN_FRACTION
    mean = max(-_MEAN_MAX, min(_MEAN_MAX, _shifted(state.mean.mantissa, min(place, _MEAN_MAX.bit_length()))))
    return _forward(_inverse_root(state.variance, constants.epsilon), 1, mean, 0, affine, x_exponent)


def _blend(old: Number, new: Number, rate: Number, momentum: int) -> Number:
    """(1 - momentum) * old + rate * new."""
    kept, added = ((1 << MOMENTUM_BITS) - momentum) * old.mantissa, rate.mantissa * new.mantissa
    kept_exponent, added_exponent = old.exponent - MOMENTUM_BITS, new.exponent + rate.exponent
    exponent = max(kept_exponent, added_exponent)
    total = _shifted(kept, kept_exponent - exponent) + _shifted(added, added_exponent - exponent)
    blended = _normalised(total, exponent)
    return blended if blended.exponent > LEAST_EXPONENT else ZERO


def running_state(state: State, sums: tuple[int, int], x_exponent: int, constants: NormConstants) -> State:
    """Running statistics after a batch."""
    n, (total, squares) = constants.n, sums
    mean = _normalised(_mean(total, n), x_exponent - _MEAN_FRACTION)
    variance = _normalised(n * squares - total * total, 2 * x_exponent)
    return State(
        _blend(state.mean, mean, Number(constants.momentum, -MOMENTUM_BITS), constants.momentum),
        _blend(state.variance, variance, constants.unbiased, constants.momentum),
    )


def backward_constants(row: Forward, sums: tuple[int, int], x_exponent: int, g_exponent: int, n: int) -> Backward:
    """Constants of the backward pass of a batch, from its sums of g and of g * x."""
    of_g, of_gx = sums
    z = _normalised(n * of_gx - row.sum * of_g, x_exponent + g_exponent, _GRADIENT_BITS)
    gradient = Number(z.mantissa * row.inverse, z.exponent + row.inverse_exponent)
    # Z / V in LSBs of g and x.
    ratio = _normalised(gradient.mantissa * row.inverse, gradient.exponent + row.inverse_exponent)
    product, exponent = -row.a * ratio.mantissa, ratio.exponent + x_exponent - g_exponent
    places = product.bit_length() - _Q_BITS  # that q has to lose
    above = max(0, places + exponent) if product else 0
    cut = max(0, above - _Q_SHIFT_MAX)
    q_shift = above - cut
    p = _factor(row.a, cut)
    q = _factor(product, above - exponent) if product else 0
    total = p * of_g + (q * row.sum << q_shift)
    r = abs(total) // n
    return Backward(p, row.a_exponent + cut, q, q_shift, r if total < 0 else -r, gradient)
