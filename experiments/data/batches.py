"""Batches in an order that depends on seed and epoch alone."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

__all__ = ["Batches", "Draw", "Examples"]

Draw = Callable[[int], np.random.Generator]
"""From an example's index to random numbers that belong to it in this epoch."""


class Examples(Protocol):
    """The examples that batches are made of."""

    def __len__(self) -> int: ...

    def batch(self, indexes: np.ndarray, draw: Draw) -> Any:
        """Examples put together for a network; what varies from epoch to epoch is drawn."""


class Batches:
    """One epoch of ``examples``: all once, in random order, the last batch with what is left.

    Without ``shuffle`` the order is that of the examples. Raises ValueError for a size that means nothing.
    """

    def __init__(self, examples: Examples, batch_size: int, seed: int, epoch: int, *, shuffle: bool = True):
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, and must be at least 1")
        self.examples, self.batch_size, self.seed, self.epoch = examples, batch_size, seed, epoch
        self._shuffle = shuffle

    def __len__(self) -> int:
        """Batches."""
        return -(-len(self.examples) // self.batch_size)

    def _draw(self, index: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.epoch, int(index)])

    def __iter__(self) -> Iterator[Any]:
        order = np.arange(len(self.examples))
        if self._shuffle:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(order)
        for first in range(0, len(order), self.batch_size):
            yield self.examples.batch(order[first : first + self.batch_size], self._draw)
