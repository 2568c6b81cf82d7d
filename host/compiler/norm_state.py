"""Batch norm's numbers on the host's side: constants of commands, and running statistics to and from their table."""

import math

import numpy as np

from ...spec.channel_tables import pack_state, unpack_state
from ...spec.norm import MAX_VALUES, MOMENTUM_BITS, ZERO, NormConstants, Number, State
from .quantise import constant

__all__ = ["evaluation_constants", "export_states", "import_states", "norm_constants"]

_MANTISSA_BITS = 31


def _epsilon(epsilon: float, factor: int) -> Number:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"batch norm's eps must be positive and finite, not {epsilon!r}")
    return Number(*constant(epsilon * factor))


def norm_constants(n: int, epsilon: float, momentum: float) -> NormConstants:
    """Constants of a batch with ``n`` values a channel.

    Raises ValueError naming the argument that lies outside of its range.
    """
    if not 2 <= n <= MAX_VALUES:
        raise ValueError(f"batch norm needs 2 to {MAX_VALUES} values a channel, not {n!r}")
    rate = round(math.ldexp(momentum, MOMENTUM_BITS)) if math.isfinite(momentum) else 0
    if not 0 < rate < 1 << MOMENTUM_BITS:
        raise ValueError(f"batch norm's momentum must be above 0 and below 1, not {momentum!r}")
    unbiased = Number(*constant(math.ldexp(rate, -MOMENTUM_BITS) / (n * (n - 1))))
    return NormConstants(n, _epsilon(epsilon, n * n), rate, unbiased)


def evaluation_constants(epsilon: float) -> NormConstants:
    """Constants where the running statistics are used."""
    return NormConstants(1, _epsilon(epsilon, 1), 0, Number(0, 0))


def _number(name: str, value: float) -> Number:
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value!r}")
    if not value:
        return ZERO
    fraction, exponent = math.frexp(value)
    mantissa = round(math.ldexp(fraction, _MANTISSA_BITS))
    if abs(mantissa) >> _MANTISSA_BITS:  # rounded up to a power of two
        mantissa, exponent = mantissa // 2, exponent + 1
    return Number(mantissa, exponent - _MANTISSA_BITS)


def import_states(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The table of running statistics.

    Raises ValueError for values that aren't finite, negative variances, and lengths that differ.
    """
    if np.shape(mean) != np.shape(variance) or np.ndim(mean) != 1:
        raise ValueError(f"running_mean and running_var have one length, not {np.shape(mean)} and {np.shape(variance)}")
    least = float(np.min(variance, initial=0.0))
    if least < 0:
        raise ValueError(f"running_var must not be negative, not {least!r}")
    pairs = zip(np.asarray(mean, np.float64).tolist(), np.asarray(variance, np.float64).tolist(), strict=True)
    states = [State(_number("running_mean", m), _number("running_var", v)) for m, v in pairs]
    return np.array(pack_state(states), np.int16)


def export_states(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Running mean and variance of each channel, float64."""

    def value(number: Number) -> float:
        return math.ldexp(number.mantissa, number.exponent)

    states = unpack_state(table.tolist())
    return np.array([value(s.mean) for s in states]), np.array([value(s.variance) for s in states])
