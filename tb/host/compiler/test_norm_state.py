"""Constants of batch norm's commands, and running statistics to a table and back."""

from fractions import Fraction

import numpy as np
import pytest
from adagp.host.compiler.norm_state import evaluation_constants, export_states, import_states, norm_constants
from adagp.spec.norm import LEAST_EXPONENT, MAX_VALUES, STATE_ROW, Number, planes


def exact(number: Number) -> Fraction:
    return Fraction(number.mantissa) * Fraction(2) ** number.exponent


@pytest.mark.parametrize("n", [2, 3, 1000, MAX_VALUES])
def test_constants_of_a_batch(n):
    constants = norm_constants(n, 1e-5, 0.1)
    assert (constants.n, constants.momentum) == (n, 6554)
    assert abs(exact(constants.epsilon) / (Fraction(1e-5) * n * n) - 1) <= Fraction(1, 1 << 16)
    assert abs(exact(constants.unbiased) * n * (n - 1) / Fraction(6554, 1 << 16) - 1) <= Fraction(1, 1 << 16)
    for number in (constants.epsilon, constants.unbiased):
        assert 0 < number.mantissa < 1 << 16 and -128 <= number.exponent <= 127


def test_constants_of_running_statistics():
    constants = evaluation_constants(2.0**-10)
    assert constants.n == 1 and exact(constants.epsilon) == Fraction(1, 1024) and constants.momentum == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 1e-5, 0.1), "needs 2 to 16777216 values a channel, not 1"),
        ((MAX_VALUES + 1, 1e-5, 0.1), "needs 2 to 16777216 values a channel, not 16777217"),
        ((8, 0.0, 0.1), "eps must be positive and finite, not 0.0"),
        ((8, float("inf"), 0.1), "eps must be positive and finite, not inf"),
        ((8, 1e-5, 1.0), "momentum must be above 0 and below 1, not 1.0"),
        ((8, 1e-5, 0.0), "momentum must be above 0 and below 1, not 0.0"),
        ((8, 1e-5, float("nan")), "momentum must be above 0 and below 1, not nan"),
    ],
)
def test_what_a_command_cannot_say_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        norm_constants(*arguments)


def test_statistics_come_back():
    """Within half an LSB of 31 bits, over any spread; float32 values come back exactly."""
    rng = np.random.default_rng(1)
    mean = rng.standard_normal(50) * 2.0 ** rng.integers(-100, 100, 50)
    variance = rng.random(50) * 2.0 ** rng.integers(-100, 100, 50)
    mean[0], variance[0], mean[1], variance[1] = 0, 0, -1 + 2.0**-40, 1 - 2.0**-40
    rows = import_states(mean, variance)
    assert rows.shape == (planes(STATE_ROW), 50) and rows.dtype == np.int16
    assert rows[:, 0].tolist() == [0, 0, 0, LEAST_EXPONENT, 0, 0, 0, LEAST_EXPONENT]
    for values, back in zip((mean, variance), export_states(rows), strict=True):
        assert (np.abs(back - values) <= 2.0**-31 * np.abs(values)).all()
        single = values.astype(np.float32).astype(np.float64)
        assert (export_states(import_states(single, np.abs(single)))[0] == single).all()


@pytest.mark.parametrize(
    ("mean", "variance", "message"),
    [
        ([0.0, 1.0], [1.0], "have one length"),
        ([0.0], [-1.0], "running_var must not be negative, not -1.0"),
        ([float("nan")], [1.0], "running_mean must be finite, not nan"),
        ([0.0], [float("inf")], "running_var must be finite, not inf"),
    ],
)
def test_statistics_that_are_none_are_refused(mean, variance, message):
    with pytest.raises(ValueError, match=message):
        import_states(np.array(mean), np.array(variance))
