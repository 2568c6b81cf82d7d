"""Dropout in the golden model: by its definition, its statistics, and the values that stay against PyTorch's."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.golden.dropout import drawn, kept
from adagp.golden.layer import LayerExponents, compute
from adagp.golden.validate import validate
from adagp.host.compiler.quantise import constant
from adagp.spec.commands import Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.presets import preset
from dropped_elements import mask, number

TINY = replace(preset("tiny"), dropout=True)
SEED = 30
KEYS = list(itertools.product((0, 1, 9), (0, 7), (0, 1, 2, 1000)))
"""Layers, seeds and batches."""


def test_is_as_defined():
    rng = np.random.default_rng(SEED)
    for _ in range(12):
        shape = tuple(int(extent) for extent in (*rng.integers(1, 4, 3), rng.integers(1, 30)))
        layer, seed, batch = int(rng.integers(1 << 16)), *(int(each) for each in rng.integers(0, 1 << 32, 2))
        probability = int(rng.choice((rng.integers(1, 1 << 16), number(0, 0, layer, seed, batch))))  # which isn't below
        found = kept(shape, probability, layer, seed, batch)
        assert (found == mask(shape, probability, layer, seed, batch).numpy()).all() and found.shape == shape


def test_by_hand():
    """The first two blocks of pixel 0, and a mask of a pixel far on, which repeats."""
    found = drawn((1, 1, 1, 10), 5, 1, 2).ravel().tolist()
    assert found == [number(0, channel, 5, 1, 2) for channel in range(10)]
    assert all(low >> 8 == high & 0xFF for low, high in itertools.pairwise(found[:8]))
    assert found[7] >> 8 == found[0] & 0xFF and number((1 << 25) + 3, 1, 5, 1, 2) == number(3, 1, 5, 1, 2)


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9, 2**-16 * 700])
def test_as_many_stay_as_shall(p):
    probability = round(p * 2**16)
    share = np.array([kept((8, 8, 8, 40), probability, *key) for key in KEYS])
    sigma = (p * (1 - p)) ** 0.5
    assert abs(share.mean() - (1 - p)) < 5 * sigma / share.size**0.5 + 2**-17
    for axis in range(4):  # by image, row, column and channel
        others = tuple(each for each in range(5) if each != axis + 1)
        n = share.size / share.shape[axis + 1]
        assert np.abs(share.mean(axis=others) - (1 - p)).max() < 5 * sigma / n**0.5 + 2**-17


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_masks_are_independent(p):
    """Masks of other keys and of near elements are independent; neighbours share a byte, which shows in one of 2^8."""
    masks = np.array([kept((4, 8, 8, 64), round(p * 2**16), *key) for key in KEYS])
    masks = (masks - (1 - p)) / (p * (1 - p)) ** 0.5
    flat = masks.reshape(len(KEYS), -1)
    products = (flat @ flat.T / flat.shape[1])[~np.eye(len(KEYS), dtype=bool)]
    assert products.size == 24 * 23 and np.abs(products).max() < 5 / flat.shape[1] ** 0.5
    for axis, distance in itertools.product((1, 2, 3, 4), (1, 2, 3)):
        one, other = (np.take(masks, range(*ends), axis) for ends in (
            (distance, masks.shape[axis]), (0, masks.shape[axis] - distance),
        ))  # fmt: skip
        assert abs((one * other).mean()) < 5 / one.size**0.5 + 2**-8 * (axis == 4 and distance == 1)


@pytest.mark.parametrize("probability", [round(0.1 * 2**16), 1 << 15, 127 << 8 | 128])
def test_covariance_of_neighbours(probability):
    """A byte is the upper one of an element and the lower one of the next in its block, round about."""
    upper, lower = divmod(probability, 256)
    byte, p = np.arange(256), probability / 2**16
    chances = np.where(byte == upper, lower / 256, byte < upper), (upper + (byte < lower)) / 256  # that both drop
    expected = (chances[0] * chances[1]).mean() - p**2
    drops = ~np.array([kept((16, 16, 16, 64), probability, *key) for key in KEYS]).reshape(-1, 8) - np.float32(p)
    slack = 5 * p * (1 - p) / drops.size**0.5
    assert {1 << 15: expected == 0, 127 << 8 | 128: expected > 1.5 * slack}.get(probability, expected > 0)
    for distance in (1, 2, 3, 4):
        found = (drops * np.roll(drops, distance, 1)).mean(dtype=np.float64)
        assert abs(found - expected * (distance == 1)) < slack, distance


def command(probability, scale=1.0, shape=(3, 4, 5, 11), **fields):
    n, h, w, c = shape
    mantissa, exponent = constant(scale)
    geometry = {"n": n, "h": h, "w": w, "c": c, "oh": h, "ow": w, "q": c}
    ones = dict.fromkeys(("r", "s", "stride", "nb", "yb", "cb", "qb"), 1)
    drop = {"momentum": probability, "const_mantissa": mantissa, "const_exponent": exponent, "layer": 6}
    return Command(Opcode.AVGPOOL, {**geometry, **ones, **drop, **fields})


@pytest.mark.parametrize("p", [0.1, 0.5, 0.75])
def test_values_that_stay_are_those_of_pytorch(p):
    """x / (1 - p) in float64 where the mask says so: off by half an LSB and by the constant's 16 bits."""
    shape, probability = (3, 4, 5, 11), round(p * 2**16)
    x = np.random.default_rng(SEED).integers(-30000, 30000, shape)
    stays = kept(shape, probability, 6, 1, 2)
    given = {"a": x, "kept": stays}
    result, _ = compute(
        command(probability, 2**16 / (2**16 - probability)), given, LayerExponents(-12, 0, 0, -10), TINY
    )
    expected = torch.where(torch.from_numpy(stays), torch.from_numpy(x * 2.0**-12) / (1 - p), 0.0).numpy()
    error = np.abs(result.out * 2.0**-10 - expected)
    assert error.max() <= 2.0**-11 + np.abs(expected).max() * 2.0**-15 and result.saturations == 0
    assert (result.out[~stays] == 0).all() and 0.5 * p < (~stays).mean() < 1.5 * p
    assert np.count_nonzero(result.out[stays]) > 0.99 * stays.sum()


def test_a_half_by_hand():
    """The second of 3, -5, 7 and 4 at exponent 0 is dropped; others are doubled, at exponents 1 and 2."""
    stays = np.array([True, False, True, True]).reshape(1, 1, 1, 4)
    given = {"a": np.array([3, -5, 7, 4]).reshape(1, 1, 1, 4), "kept": stays}
    for exponent, expected in ((1, [3, 0, 7, 4]), (2, [2, 0, 4, 2])):
        asked = command(1 << 15, 2.0, (1, 1, 1, 4))
        result, _ = compute(asked, given, LayerExponents(0, 0, 0, exponent), TINY)
        assert result.out.ravel().tolist() == expected and result.top == {1: 4, 2: 5}[exponent]


def test_refusal():
    """A tile of several images has all their rows, so that its pixels follow each other."""
    asked = {"nb": 2, "yb": 3}
    assert validate(command(1, **asked), TINY) == ErrorCode.BAD_TILE
    assert validate(command(1, **asked), replace(TINY, dropout=False)) == ErrorCode.NONE
    for fields in ({"nb": 2, "yb": 4}, {"nb": 1, "yb": 3}, {"nb": 2, "yb": 9}):
        assert validate(command(1, **fields), TINY) == ErrorCode.NONE
    assert validate(command(0, **asked), TINY) == ErrorCode.NONE
