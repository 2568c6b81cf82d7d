"""Messages between neighbouring stages: vectors of float64, since torch's pipelines pass tensors of one shape.

A vector has the time at which it was sent, then exponent and mantissas of each tensor. What a stage after the next one
needs is passed on by the one between. If gradients are predicted, vectors of the forward pass end with the exponents
of what the predictor reads, which the first stage finds in the batch that calibrates.
"""

from collections.abc import Mapping

import numpy as np
import torch

from ..compiler.predictor_steps import INPUTS
from .device_program import Staged
from .worker import HEADER_BYTES, Message

__all__ = ["Relay"]

Kept = Mapping[tuple[str, int], Message]
"""Messages by tensor and micro-batch."""


class Relay:
    """The vectors of a network's stages."""

    def __init__(self, staged: Staged):
        self.staged = staged
        self._crossings = [each for each in staged.sections.crossings if staged.has_message(each)]

    def names(self, stage: int, backward: bool) -> list[str]:
        """The tensors in the vector that a stage sends to its neighbour."""
        passing = (each for each in self._crossings if each.backward == backward)
        if backward:
            return sorted({each.tensor for each in passing if each.reader < stage <= each.writer})
        return sorted({each.tensor for each in passing if each.writer <= stage < each.reader})

    def length(self, stage: int, backward: bool) -> int:
        """Elements of the vector; at least one, the time."""
        return 1 + sum(1 + self._size(name) for name in self.names(stage, backward)) + len(self._shared(backward))

    def n_bytes(self, stage: int, backward: bool) -> int:
        """Bytes that cross the link for it."""
        tensors = [self.staged.tensors[name] for name in self.names(stage, backward)]
        return sum(HEADER_BYTES + self._size(each.name) * each.dtype.itemsize for each in tensors)

    def packed(
        self, stage: int, backward: bool, micro_batch: int, kept: Kept, time: float, shared: Mapping[str, int]
    ) -> torch.Tensor:  # fmt: skip
        """The vector that a stage sends, with the ``shared`` exponents as far as they are known."""
        parts = [np.array([time])]
        for name in self.names(stage, backward):
            message = kept[name, micro_batch]
            parts += [np.array([message.exponent]), message.mantissas.reshape(-1)]
        parts.append(np.array([shared.get(name, 0) for name in self._shared(backward)]))
        return torch.from_numpy(np.concatenate(parts).astype(np.float64))

    def unpacked(
        self, stage: int, backward: bool, micro_batch: int, vector: torch.Tensor
    ) -> tuple[dict[tuple[str, int], Message], float, dict[str, int]]:
        """The messages in the vector that a stage has sent, its time, and shared exponents."""
        values, place, found = vector.detach().numpy(), 1, {}
        for name in self.names(stage, backward):
            tensor, size = self.staged.tensors[name], self._size(name)
            mantissas = values[place + 1 : place + 1 + size].astype(tensor.dtype).reshape(tensor.shape)
            reader = stage - 1 if backward else stage + 1
            found[name, micro_batch] = Message(name, micro_batch, reader, backward, int(values[place]), mantissas)
            place += 1 + size
        return found, float(values[0]), dict(zip(self._shared(backward), map(int, values[place:]), strict=True))

    def _shared(self, backward: bool) -> tuple[str, ...]:
        return INPUTS if self.staged.gp and not backward else ()

    def _size(self, name: str) -> int:
        return int(np.prod(self.staged.tensors[name].shape))
