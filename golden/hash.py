"""The hash by which the machine draws at random: it keeps nothing, and is the same wherever it is computed."""

import numpy as np

__all__ = ["ROUNDS", "hashed"]

ROUNDS = 8
_CONSTANT = 0x9E3779B9
_MASK = 0xFFFFFFFF


def hashed(x: np.ndarray, y: np.ndarray, seed: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """64 bits for each pair of numbers, all operands 32 bits wide, unsigned: rounds of the cipher Speck64.

    Round r = 0..ROUNDS-1 makes, modulo 2^32,

        x = ((x rotated right by 8) + y) ^ key ^ (r * 0x9E3779B9),  key: seed in even rounds, batch in odd ones
        y = (y rotated left by 3) ^ x                               with the new x

    and the last x and y are the result. One addition and two XORs of 32 bits a round: a hash takes either one round's
    hardware for ROUNDS cycles or ROUNDS of them in a pipeline.
    """
    x, y = (np.asarray(each).astype(np.uint32) for each in (x, y))
    for r in range(ROUNDS):
        key = np.uint32(((batch if r % 2 else seed) ^ r * _CONSTANT) & _MASK)
        x = ((x >> 8 | x << 24) + y) ^ key
        y = (y << 3 | y >> 29) ^ x
    return x, y
