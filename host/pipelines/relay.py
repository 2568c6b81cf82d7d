"""Messages between neighbouring stages: vectors of float64, since torch's pipelines pass tensors of one shape.

A vector has the time at which it was sent, then exponent and mantissas of each tensor. What a stage after the next one
needs is passed on by the one between. If gradients are predicted, in vectors of the forward pass the time is followed
by the exponents of what the predictor reads, which the first stage finds in the batch that calibrates.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch

from ..compiler.predictor_steps import INPUTS
from ..compiler.tensors import Tensor
from .device_program import Staged
from .worker import HEADER_BYTES, Message

__all__ = ["Relay", "joined", "length", "parted"]

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
        return length(1 + len(self._shared(backward)), self._tensors(stage, backward))

    def n_bytes(self, stage: int, backward: bool) -> int:
        """Bytes that cross the link for it."""
        return sum(HEADER_BYTES + each.n_bytes for each in self._tensors(stage, backward))

    def packed(
        self, stage: int, backward: bool, micro_batch: int, kept: Kept, time: float, shared: Mapping[str, int]
    ) -> torch.Tensor:  # fmt: skip
        """The vector that a stage sends, with the ``shared`` exponents as far as they are known."""
        head = [time, *(shared.get(name, 0) for name in self._shared(backward))]
        return joined(head, (kept[name, micro_batch] for name in self.names(stage, backward)))

    def unpacked(
        self, stage: int, backward: bool, micro_batch: int, vector: torch.Tensor
    ) -> tuple[dict[tuple[str, int], Message], float, dict[str, int]]:
        """The messages in the vector that a stage has sent, its time, and shared exponents."""
        shared, reader = self._shared(backward), stage - 1 if backward else stage + 1
        head, parts = parted(vector, 1 + len(shared), self._tensors(stage, backward))
        found = {(name, micro_batch): Message(name, micro_batch, reader, backward, exponent, mantissas)
                 for name, exponent, mantissas in parts}  # fmt: skip
        return found, head[0], dict(zip(shared, map(int, head[1:]), strict=True))

    def _shared(self, backward: bool) -> tuple[str, ...]:
        return INPUTS if self.staged.gp and not backward else ()

    def _tensors(self, stage: int, backward: bool) -> list[Tensor]:
        return [self.staged.tensors[name] for name in self.names(stage, backward)]


def length(head: int, tensors: Iterable[Tensor]) -> int:
    """Elements of a vector that begins with ``head`` numbers."""
    return head + sum(1 + int(np.prod(tensor.shape)) for tensor in tensors)


def joined(head: Sequence[float], messages: Iterable[Message]) -> torch.Tensor:
    """A vector of numbers, then exponent and mantissas of each message."""
    parts = [np.array(head)]
    for message in messages:
        parts += [np.array([message.exponent]), message.mantissas.reshape(-1)]
    return torch.from_numpy(np.concatenate(parts).astype(np.float64))


def parted(
    vector: torch.Tensor, head: int, tensors: Iterable[Tensor]
) -> tuple[list[float], Iterator[tuple[str, int, np.ndarray]]]:
    """The first ``head`` numbers of such a vector, and name, exponent and mantissas of each tensor."""
    values = vector.detach().numpy()

    def parts() -> Iterator[tuple[str, int, np.ndarray]]:
        place = head
        for tensor in tensors:
            size = int(np.prod(tensor.shape))
            mantissas = values[place + 1 : place + 1 + size].astype(tensor.dtype).reshape(tensor.shape)
            yield tensor.name, int(values[place]), mantissas
            place += 1 + size

    return values[:head].tolist(), parts()
