"""Random signs of gradients (Source.RANDOM): a hash of the weight's place and of the batch that updates it."""

import numpy as np

__all__ = ["ROUNDS", "WORD", "hashed", "random_signs"]

ROUNDS = 8
WORD = 32
"""Weights that share a hash."""
_CONSTANT = 0x9E3779B9
_MASK = 0xFFFFFFFF


def hashed(block: np.ndarray, layer: int, seed: int, batch: int) -> np.ndarray:
    """32 bits for each number in ``block``, all operands 32 bits wide, unsigned: rounds of the cipher Speck64.

    From x = block, y = layer, round r = 0..ROUNDS-1 makes, modulo 2^32,

        x = ((x rotated right by 8) + y) ^ key ^ (r * 0x9E3779B9),  key: seed in even rounds, batch in odd ones
        y = (y rotated left by 3) ^ x                               with the new x

    and the last x is the result. One addition and two XORs of 32 bits a round: the hash of 32 weights takes either
    one round's hardware for ROUNDS cycles or ROUNDS of them in a pipeline.
    """
    x: np.ndarray = np.asarray(block).astype(np.uint32)
    y: np.ndarray = np.full_like(x, layer)
    for r in range(ROUNDS):
        key = np.uint32(((batch if r % 2 else seed) ^ r * _CONSTANT) & _MASK)
        x = ((x >> 8 | x << 24) + y) ^ key
        y = (y << 3 | y >> 29) ^ x
    return x


def random_signs(count: int, layer: int, seed: int, batch: int) -> np.ndarray:
    """Mask of a layer's ``count`` gradients that change their sign: weight i if bit i % 32 of hash i // 32 is set."""
    words = hashed(np.arange(-(-count // WORD)), layer, seed, batch)
    return np.unpackbits(words.astype("<u4").view(np.uint8), count=count, bitorder="little").astype(bool)
