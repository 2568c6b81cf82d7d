"""Dropout by its definition, element by element with Python's integers."""

import numpy as np
import torch
from adagp.spec.commands import Opcode

__all__ = ["dropped", "mask", "number", "random_drop", "vectors_that_stay"]

MASK = 0xFFFFFFFF


def rotated(x, left, width=32):
    return (x << left | x >> width - left) & ((1 << width) - 1)


def number(pixel, channel, layer, seed, batch):
    """The 16 bits that an element is drawn by: Speck64's first eight rounds, of the pixel and of layer and channels."""
    x, y = pixel % (1 << 25), layer + (channel // 8 << 16) + (1 << 31)
    for r in range(8):
        x = (rotated(x, 24) + y & MASK) ^ (batch if r % 2 else seed) ^ r * 0x9E3779B9 & MASK
        y = rotated(y, 3) ^ x
    return rotated(x + (y << 32), (64 - 8 * (channel % 8)) % 64, 64) & 0xFFFF


def mask(shape, probability, layer, seed=0, batch=0):
    """True where an element of [n, y, x, channel] stays."""
    *outer, channels = shape
    kept = [number(pixel, channel, layer, seed, batch) >= probability
            for pixel in range(int(np.prod(outer))) for channel in range(channels)]  # fmt: skip
    return torch.tensor(kept).reshape(shape)


def random_drop(config, rng, opcode):
    """Fields of a random command's dropout, of most averages where there is one."""
    if not config.dropout or opcode != Opcode.AVGPOOL:
        return {}
    return {"momentum": rng.choice((0, 1 << 15, rng.getrandbits(16))), "layer": rng.getrandbits(16)}


def dropped(t, sums):
    """The sums of a task with 0 in place of those that it drops for seed and batch 0."""
    drops = t.opcode == Opcode.AVGPOOL and t.momentum
    return sums * mask(tuple(sums.shape), t.momentum, t.layer) if drops else sums


def vectors_that_stay(d, rows):
    """Lanes, 0 or 1, of the vectors of a COMPUTE descriptor with dropout, drawn for seed and batch 0."""
    stays = np.ones((d["n0"] * d["n1"] * d["n2"], d["n3"] * rows), np.int64)
    for at, row in enumerate(stays):
        for channel in range(d["n_b"]):
            drawn = number(d["n_values"] + at, d["b_stride"] + channel, d["unbiased"], 0, 0)
            row[channel] = drawn >= d["momentum"]
    return stays.reshape(-1, rows)
