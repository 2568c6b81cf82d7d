"""Random signs of gradients (Source.RANDOM): a hash of the weight's place and of the batch that updates it."""

import numpy as np

from .hash import hashed

__all__ = ["WORD", "random_signs", "words"]

WORD = 32
"""Weights that share a hash."""


def words(block: np.ndarray, layer: int, seed: int, batch: int) -> np.ndarray:
    """32 bits for each number of a block of weights: the first half of the hash of it and of the layer."""
    x, _ = hashed(block, np.full_like(block, layer), seed, batch)
    return x


def random_signs(count: int, layer: int, seed: int, batch: int) -> np.ndarray:
    """Mask of a layer's ``count`` gradients that change their sign: weight i if bit i % 32 of word i // 32 is set."""
    found = words(np.arange(-(-count // WORD)), layer, seed, batch)
    return np.unpackbits(found.astype("<u4").view(np.uint8), count=count, bitorder="little").astype(bool)
