"""Constants that golden model and hardware share, by cases worked out by hand: no test can take them from here."""

import numpy as np
import pytest
from adagp.golden.adam import AdamExponents, Powers, adam
from adagp.golden.epilogue import epilogue
from adagp.golden.exponents import rule, smoothed
from adagp.golden.update import Hyper, UpdateExponents, update
from adagp.spec.numerics import operand_max, unpredicted
from adagp.spec.presets import preset

HALF = (1 << 15, -16)


def arrays(*values):
    return [np.array([value]) for value in values]


@pytest.mark.parametrize(("part", "rounded"), [(1 << 8, 1), (1 << 7, 0)])
def test_terms_of_an_update_have_eight_bits_below_the_lsb(part, rounded):
    """1/2 and 1/256 are more than a half; 1/512 is rounded away before it is added, and 1/2 goes to even."""
    gradient, high, low, momentum = arrays(0, 0, 1, 1)
    exponents = UpdateExponents(0, 0, 0, 0, 0)
    result = update(gradient, high, low, momentum, exponents, (Hyper(0, 0), Hyper(part, -16), Hyper(*HALF)), 16)
    assert result.v.tolist() == [rounded]


@pytest.mark.parametrize(("part", "rounded"), [(1 << 8, 1), (1 << 7, 0)])
def test_terms_of_adam_have_eight_bits_below_the_lsb(part, rounded):
    """As above: a first moment of 1 times ``part`` / 2^16, and half an LSB of gradient."""
    none = Hyper(0, -16)
    result = adam(
        *arrays(1, 0, 0, 1, 0), AdamExponents(-16, 0, 0, 0, 0, 0, 0), Hyper(0, 0), (Hyper(part, -16), none),
        (Hyper(*HALF), none), 1, 16,
    )  # fmt: skip
    assert result.m.tolist() == [rounded]


def test_powers_of_betas_begin_at_one():
    """1 is all 32 bits: (2^32 - 1) * (2^16 - 1) / 2^16 is 2^32 - 2^16 - 1, cut, and a half of it is 2^31 - 1."""
    assert Powers().after(Hyper(0xFFFF, -16), Hyper(*HALF)) == Powers(0xFFFE_FFFF, 0x7FFF_FFFF)


def test_a_scale_goes_an_eighth_of_the_way():
    assert smoothed(0, 0, 8) == (1, 0)
    assert smoothed(4, 128, 4) == (4, 112)  # from 4 + 1/2 to 4 + 7/16
    assert smoothed(-3, 0, -4) == (-4, 224)  # to -3 - 1/8


def test_a_tensor_of_zeros_goes_down_by_eight():
    assert [rule(5, None, 16), rule(5, 20, 16), rule(5, 20, 8)] == [-3, 6, 14]


@pytest.mark.parametrize(("exponent", "top"), [(-15, 1), (-16, 1), (-17, 0), (-40, -23)])
def test_a_result_is_shifted_left_by_sixteen_at_most(exponent, top):
    """1 has its top bit at 1, whatever its exponent; below -16 it loses one for each."""
    result = epilogue(np.array([[1]]), 0, exponent, acc_width=48, operand_width=16)
    assert result.top == top


def test_limits_of_operands():
    assert [operand_max(width) for width in (8, 16)] == [127, 32767]
    assert [unpredicted(width) for width in (8, 16)] == [-128, -32768]


def test_longest_average_with_the_largest_constant():
    """2^47 / ((2^16 - 1) * (2^15 - 1)) is 65539 and a little more."""
    assert preset("tiny").acc_width == 48 and preset("tiny").max_average_taps == 65539
