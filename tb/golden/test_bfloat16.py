"""golden/bfloat16.py against what torch and numpy make of the same numbers, subnormals flushed by the stated rule."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from adagp.golden import bfloat16
from float_patterns import bfloat16_pairs, corners, float32_pairs, flushed

COUNT = 1_000_000


def generator(seed):
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def floats(bits):
    return bits.astype(np.uint32).view(np.float32)


def patterns(values):
    """The bit patterns of float32 values as results of the PE: subnormals flushed, one NaN."""
    bits = values.view(np.uint32).astype(np.int64)
    return np.where(np.isnan(values), bfloat16.NAN, flushed(bits, 23))


def torch_bfloat16(bits):
    """bfloat16 tensors from patterns, widened to float32 by torch."""
    return torch.from_numpy(flushed(bits, 7).astype(np.uint16).view(np.int16)).view(torch.bfloat16).to(torch.float32)


def kinds(bits):
    """Counts of zeros, infinities, NaNs and numbers among results."""
    magnitude = bits & 0x7FFFFFFF
    special = magnitude >= 0x7F800000
    infinite, zero = magnitude == 0x7F800000, magnitude == 0
    return [int(kind.sum()) for kind in (zero, infinite, special & ~infinite, ~special & ~zero)]


@pytest.mark.parametrize("seed", [1, 2])
def test_products_are_those_of_torch(seed):
    a, b = bfloat16_pairs(generator(seed), COUNT)
    expected = patterns((torch_bfloat16(a) * torch_bfloat16(b)).numpy())
    np.testing.assert_array_equal(bfloat16.multiply(a, b), expected)
    assert min(kinds(expected)) > 1000


@pytest.mark.parametrize("seed", [1, 2])
def test_sums_are_those_of_numpy(seed):
    a, b = float32_pairs(generator(seed), COUNT)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = floats(flushed(a, 23)) + floats(flushed(b, 23))
        wide = floats(flushed(a, 23)).astype(np.float64) + floats(flushed(b, 23)).astype(np.float64)
        narrow = wide.astype(np.float32)
    expected = patterns(sums)
    np.testing.assert_array_equal(bfloat16.add(a, b), expected)
    # 53 bits are more than twice 24 and one, so rounding twice changes nothing: numpy's two additions must agree.
    np.testing.assert_array_equal(patterns(narrow), expected)
    assert min(kinds(expected)) > 1000
    inexact = (sums.astype(np.float64) != wide) & np.isfinite(sums)
    assert inexact.sum() > COUNT // 10


def test_every_product_of_numbers_is_exact_or_out_of_range():
    """By rational numbers, for some thousands of pairs: neither numpy nor torch has a say in it."""
    a, b = (side[:6000] for side in bfloat16_pairs(generator(3), 4704))
    seen = 0
    for x, y, bits in zip(a, b, bfloat16.multiply(a, b), strict=True):
        if 0 < (x >> 7 & 0xFF) < 255 and 0 < (y >> 7 & 0xFF) < 255:
            exact = value(int(x), 7) * value(int(y), 7)
            magnitude = int(bits) & 0x7FFFFFFF
            if abs(exact) >= 2**128:
                assert magnitude == 0x7F800000
            elif abs(exact) < Fraction(1, 2**126):
                assert magnitude == 0
            else:
                assert value(int(bits), 23) == exact
            seen += 1
    assert seen > 3000


def value(bits, fraction):
    sign, exponent = bits >> (fraction + 8), bits >> fraction & 0xFF
    significand = Fraction((bits & ((1 << fraction) - 1)) + (1 << fraction), 1 << fraction)
    return (-1) ** sign * significand * Fraction(2) ** (exponent - 127)


def test_sums_are_the_nearest_and_ties_go_to_even():
    """By rational numbers: no float32 is nearer, and of two that are as near it is the even one."""
    a, b = (side[-4000:] for side in float32_pairs(generator(4), 4000))
    seen = ties = 0
    for x, y, bits in zip(a.tolist(), b.tolist(), bfloat16.add(a, b).tolist(), strict=True):
        if any(not 0 < (z >> 23 & 0xFF) < 255 for z in (x, y)) or not 1 < (bits >> 23 & 0xFF) < 254:
            continue
        exact, found = value(x, 23) + value(y, 23), value(bits, 23)
        for neighbour in (bits - 1, bits + 1):
            other = abs(value(neighbour, 23) - exact)
            assert abs(found - exact) <= other
            if abs(found - exact) == other:
                assert bits % 2 == 0
                ties += 1
        seen += 1
    assert seen > 1000 and ties > 50


@pytest.mark.parametrize(("a", "b", "expected"), [
    (0x00000000, 0x80000000, 0x00000000), (0x80000000, 0x80000000, 0x80000000),
    (0x3F800000, 0xBF800000, 0x00000000), (0x80000001, 0x80000001, 0x80000000),  # subnormals: zeros
    (0x00800001, 0x80800000, 0x00000000), (0x80800001, 0x00800000, 0x80000000),  # differences: subnormal
    (0x7F7FFFFF, 0x73000000, 0x7F800000), (0x7F7FFFFF, 0x72FFFFFF, 0x7F7FFFFF),  # half a place, and a bit less
    (0x7F800000, 0xFF800000, bfloat16.NAN), (0xFF800000, 0x7F7FFFFF, 0xFF800000),
    (0x3F800000, 0xFF800001, bfloat16.NAN), (0x7F800000, 0x7F800000, 0x7F800000),
    (0x3F800000, 0x33800000, 0x3F800000), (0x3F800001, 0x33800000, 0x3F800002), (0x3F800000, 0x33800001, 0x3F800001),
    (0x4B800000, 0xBEFFFFFF, 0x4B800000), (0x4B800000, 0xBF000000, 0x4B800000), (0x4B800000, 0xBF000001, 0x4B7FFFFF),
])  # fmt: skip
def test_sums_by_hand(a, b, expected):
    for x, y in ((a, b), (b, a)):
        assert bfloat16.add(np.array([x]), np.array([y])) == [expected]


def test_columns_add_in_their_order():
    """A product matrix of 32 terms, each sum in numpy's float32; another order gives other bits."""
    rng = generator(5)
    a, b = (torch.from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in ((6, 32), (32, 5)))
    x, y = (side.to(torch.bfloat16).view(torch.int16).numpy().astype(np.int64) & 0xFFFF for side in (a, b))
    wide_x, wide_y = torch_bfloat16(x).numpy(), torch_bfloat16(y).numpy()
    expected = np.zeros((6, 5), np.float32)
    for k in range(32):
        expected += wide_x[:, k, None] * wide_y[None, k]
    found = bfloat16.matmul(x, y)
    np.testing.assert_array_equal(found, patterns(expected))
    assert (bfloat16.matmul(x[:, ::-1], y[::-1]) != found).any()


def test_corners_are_of_every_kind():
    bits = np.array(corners(7), np.int64) << 16
    assert min(kinds(bits)) >= 2 and (flushed(bits, 23) != bits).sum() == 4
