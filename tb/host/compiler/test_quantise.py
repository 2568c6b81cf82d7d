"""Mantissas with a shared exponent: by hand, and master weights split and joined."""

import numpy as np
import pytest
from adagp.host.compiler.quantise import constant, exponent_for, join_master, quantise, split_master

SEED = 3


def test_quantisation_by_hand():
    assert exponent_for(1.0, 16) == -14 and exponent_for(0.99, 16) == -15 and exponent_for(0.0, 16) == -15
    assert exponent_for(0.99, 16, headroom=1) == -14 and exponent_for(1e-300, 16) == -128
    assert quantise(np.array([0.5, 1.5, 2.5, -2.5, 1e9, -1e9]), 0, 16).tolist() == [0, 2, 2, -2, 32767, -32767]
    assert quantise(np.array([300.0]), 0, 8).tolist() == [127]
    assert constant(0.25) == (1, -2) and constant(0) == (0, 0) and constant(3.0) == (3, 0)
    mantissa, exponent = constant(1 / 9)
    assert mantissa < 1 << 16 and mantissa * 2.0**exponent == pytest.approx(1 / 9, rel=2**-17)
    for refused in (-1.0, float("nan"), float("inf"), 1e60):
        with pytest.raises(ValueError):
            constant(refused)


def test_master_weights_split_and_join():
    print(f"seed {SEED}")
    weights = np.random.default_rng(SEED).normal(size=1000)
    high, low = split_master(weights, -13, 16)
    joined = join_master(high, low, -13)
    assert np.abs(joined - weights).max() <= 2.0 ** (-13 - 17)
    assert np.abs(np.ldexp(high.astype(float), -13) - weights).max() <= 2.0**-14
    limit, rest = split_master(np.array([100.0, -100.0]), -13, 16)
    assert limit.tolist() == [32767, -32767] and rest.tolist() == [32767, -32767]
