"""Arrays in the accelerator's memory."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Tensor"]


@dataclass(frozen=True)
class Tensor:
    """An array in DRAM. ``number`` is its place in the exponent table, -1 if it has no exponent of its own."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    number: int
    address: int = 0

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize
