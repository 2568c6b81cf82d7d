"""Arrays in the accelerator's memory, and their names.

A layer's tensors are called ``LAYER.PART``, the predictor's own ``predictor.PART`` or ``predictor.LAYER.PART``.
"""

from dataclasses import dataclass

import numpy as np

from .lowering import Layer
from .values import INPUT

__all__ = [
    "INPUT", "KEPT_SHIFT", "LAYER_PARTS", "LOSS_GRADIENT", "PREDICTOR", "PREDICTOR_UNUSED", "Tensor",
    "joining", "layer_tensor", "loss_gradient", "part_of", "predictor_tensor",
]  # fmt: skip

LOSS_GRADIENT = "loss.gradient"
"""The loss's gradient by the network's first result, which the host writes."""
KEPT_SHIFT = "kept.shift"
"""Number of the exponent that is added to those of gradients kept from earlier batches."""
PREDICTOR = "predictor"
"""Owner of the predictor's own tensors and commands."""
PREDICTOR_UNUSED = "predictor.unused"
"""Block of the predictor memory that no tensor takes."""

LAYER_PARTS = (
    "output", "index", "gradient", "weight", "low", "momentum", "weight_gradient", "statistics", "sums", "constants",
    "scale", "reorganised", "hidden", "hidden_gradient", "predicted", "kept",
    "gradient_sum", "gradient_part", "reorganised_part",
)  # fmt: skip
"""A layer's tensors: its own in the first line, in the second those of the source of its gradients."""


@dataclass(frozen=True)
class Tensor:
    """An array in DRAM. ``number`` is its place in the exponent table, -1 if it has no exponent of its own.

    ``pitch``: elements from a row of its last axis to the next one, if it is a part of the tensor ``whole``, from the
    element ``first`` of each row on; 0: it is a tensor of its own.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    number: int
    address: int = 0
    pitch: int = 0
    whole: str = ""
    first: int = 0

    @property
    def rows(self) -> int:
        return int(np.prod(self.shape[:-1]))

    @property
    def n_bytes(self) -> int:
        """Bytes from the first to the last."""
        if not self.pitch:
            return int(np.prod(self.shape)) * self.dtype.itemsize
        return ((self.rows - 1) * self.pitch + self.shape[-1]) * self.dtype.itemsize

    def place(self, offset: int) -> int:
        """Bytes from the first element to the one that is so many elements on."""
        if self.pitch:
            row, channel = divmod(offset, self.shape[-1])
            offset = row * self.pitch + channel
        return offset * self.dtype.itemsize


def joining(whole: str) -> str:
    """Number of the exponent of a whole's part in the batch that calibrates, until the host has joined it."""
    return f"{whole}.joining"


def loss_gradient(number: int) -> str:
    """Name of the loss's gradient by the result of that number."""
    return LOSS_GRADIENT + (str(number) if number else "")


def layer_tensor(layer: Layer, part: str) -> str:
    """Name of a layer's tensor, such as ``weight``; raises ValueError for a part that no layer has."""
    if part not in LAYER_PARTS:
        raise ValueError(f"no layer has a tensor {part!r}; there are: {', '.join(LAYER_PARTS)}")
    return f"{layer.name}.{part}"


def predictor_tensor(part: str, layer: str = "") -> str:
    """Name of a tensor of the predictor's own, in its ``layer`` (conv or fc) if one is given."""
    return ".".join(filter(None, (PREDICTOR, layer, part)))


def part_of(name: str) -> str:
    """The last part of a tensor's name: ``weight`` of ``0.Conv2d.weight``."""
    return name.rpartition(".")[2]
