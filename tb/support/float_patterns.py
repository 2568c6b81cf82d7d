"""Patterns of floating-point numbers that arithmetic gets wrong, and random ones around them."""

import numpy as np

__all__ = ["bfloat16_pairs", "corners", "float32_pairs", "flushed", "nearby"]


def corners(fraction: int) -> list[int]:
    """Both signs of zero, subnormals, the least, greatest and simplest numbers, infinity, NaNs."""
    one, ones = 1 << fraction, (1 << fraction) - 1
    found = [0, 1, ones, one, one + 1, 2 * one, 126 * one, 127 * one, 127 * one + 1, 127 * one + ones, 128 * one]
    found += [253 * one + ones, 254 * one, 254 * one + ones, 255 * one, 255 * one + 1, 255 * one + (one >> 1)]
    found += [255 * one + ones]
    return [sign << (fraction + 8) | bits for bits in found for sign in (0, 1)]


def flushed(x: np.ndarray, fraction: int) -> np.ndarray:
    """Patterns with subnormals replaced by zeros of their sign."""
    return np.where(x >> fraction & 0xFF == 0, x & 1 << (fraction + 8), x)


def _crossed(fraction):
    found = np.array(corners(fraction), np.int64)
    return np.repeat(found, len(found)), np.tile(found, len(found))


def bfloat16_pairs(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of corners, then random patterns, then products around the least and the greatest number."""
    a, b = rng.integers(0, 1 << 16, (2, count))
    x, y = rng.integers(0, 1 << 16, (2, count))
    edge = np.where(x >> 7 & 0xFF < 127, 128, 381) + rng.integers(-2, 3, count)  # sums of exponents
    pairs = (_crossed(7), (a, b), (x, y & 0x807F | np.clip(edge - (x >> 7 & 0xFF), 0, 255) << 7))
    return tuple(np.concatenate(side) for side in zip(*pairs, strict=True))


def nearby(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """For each float32 another: as large, half a unit of the last place, or a few exponents away, of either sign."""
    sign, exponent = rng.integers(0, 2, len(x)) << 31, x >> 23 & 0xFF
    distance = np.clip(exponent - rng.choice([0, 1, 2, 22, 23, 24, 25, 26, 27, 28, 40], len(x)), 0, 255)
    steps = np.clip((x & 0x7FFFFFFF) + rng.integers(-3, 4, len(x)), 0, 0x7F800000)
    ties = distance << 23 | rng.choice([0, 0, 1, 1 << 22, (1 << 23) - 1], len(x))
    others = distance << 23 | rng.integers(0, 1 << 23, len(x))
    return sign | np.choose(rng.integers(0, 3, len(x)), [steps, ties, others])


def float32_pairs(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of corners, random patterns, and random ones with one :func:`nearby`, in either order."""
    a, b = rng.integers(0, 1 << 32, (2, count))
    x = rng.integers(0, 1 << 32, count)
    edge = rng.choice([0, 1, 2, 20, 30, 126, 127, 253, 254], count) << 23 | x & 0x807FFFFF
    round_up = x & 0xFF800000 | rng.choice([0, 1, (1 << 23) - 2, (1 << 23) - 1], count)
    x = np.choose(rng.integers(0, 3, count), [x, edge, round_up])
    y, swap = nearby(rng, x), rng.random(count) < 0.5
    pairs = (_crossed(23), (a, b), (np.where(swap, x, y), np.where(swap, y, x)))
    return tuple(np.concatenate(side) for side in zip(*pairs, strict=True))
