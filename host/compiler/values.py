"""Values of a network: torch tensors, and how each lies in the machine's memory as ``[n][y][x][channel]``."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

__all__ = ["INPUT", "Input", "Value", "inputs_of", "output_name"]

INPUT = "input"
"""The first argument, such as a batch of images, which the host writes; further ones have numbers."""


@dataclass(frozen=True)
class Input:
    """An argument of a network.

    ``shape`` is that of one example, without the batch. ``largest``: largest magnitude it may have. ``whole``: it has
    integers, such as the numbers of words, and torch gets them as int64.
    """

    shape: tuple[int, ...]
    largest: float = 1.0
    whole: bool = False


def inputs_of(inputs: "Sequence[int] | Sequence[Input]", largest: float = 1.0) -> tuple[Input, ...]:
    """Arguments as they are; a mere shape is that of the only one, with reals up to ``largest``."""
    given = tuple(inputs)
    if any(isinstance(each, Input) for each in given):
        return tuple(each for each in given if isinstance(each, Input))
    return (Input(tuple(each for each in given if isinstance(each, int)), largest),)


@dataclass(frozen=True)
class Value:
    """A tensor that a network computes, or its input.

    ``shape`` is torch's, the batch included. Four dimensions are images and lie as NHWC; all others are rows, with the
    last dimension as channels. ``dtype`` is torch's name of the type, such as ``float32``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def memory_shape(self) -> tuple[int, int, int, int]:
        """The shape in memory."""
        if len(self.shape) == 4:
            n, c, h, w = self.shape
            return n, h, w, c
        n = self.shape[0] if len(self.shape) > 1 else 1
        return n, 1, prod(self.shape[1:-1]), self.shape[-1] if self.shape else 1

    def to_memory(self, array: np.ndarray) -> np.ndarray:
        """An array of torch's shape as it lies in memory."""
        return array.transpose(0, 2, 3, 1) if len(self.shape) == 4 else array.reshape(self.memory_shape)

    def from_memory(self, array: np.ndarray) -> np.ndarray:
        """Inverse of :meth:`to_memory`."""
        return array.transpose(0, 3, 1, 2) if len(self.shape) == 4 else array.reshape(self.shape)


def output_name(owner: str, number: int = 0) -> str:
    """Name of a layer's or an island's result; an island may have several."""
    return f"{owner}.output" + (str(number) if number else "")
