"""Dropout: masks by a hash of an element's place and of the batch, so that none is stored."""

import numpy as np

from ..spec.dropout import BLOCK, PIXEL_BITS, PROBABILITY_BITS
from .hash import hashed

__all__ = ["drawn", "kept"]

_MARK = 1 << 31
"""Sets the hashes apart from those of random signs."""


def drawn(shape: tuple[int, ...], layer: int, seed: int, batch: int) -> np.ndarray:
    """A number of PROBABILITY_BITS for each element of ``[n, y, x, channel]``.

    BLOCK neighbouring channels of a pixel share the hash of x, the pixel's number modulo 2^PIXEL_BITS, and y, whose
    fields are layer (bits 15:0), block (30:16) and a 1. The hash has 64 bits, x below y. Element i of a block gets the
    PROBABILITY_BITS from bit 8 i on; after bit 63 comes bit 0. So neighbours share bits, but none both of its bytes.
    """
    *outer, channels = shape
    pixels = np.arange(int(np.prod(outer))) % (1 << PIXEL_BITS)
    blocks = np.arange(-(-channels // BLOCK))
    x, y = np.broadcast_arrays(pixels[:, None], (layer | blocks << 16 | _MARK)[None])
    low, high = (each.astype(np.uint64) for each in hashed(x, y, seed, batch))
    word = (low | high << np.uint64(32))[..., None]
    right = np.arange(0, 64, 8, dtype=np.uint64)
    rotated = word >> right | word << (np.uint64(64) - right) % np.uint64(64)
    numbers = (rotated & np.uint64((1 << PROBABILITY_BITS) - 1)).astype(np.int64)
    return numbers.reshape(len(pixels), -1)[:, :channels].reshape(shape)


def kept(shape: tuple[int, ...], probability: int, layer: int, seed: int, batch: int) -> np.ndarray:
    """Mask of the elements that stay: those whose number isn't below the ``probability``, in 2^-PROBABILITY_BITS."""
    return drawn(shape, layer, seed, batch) >= probability
