"""What is to be done with a batch: a loss, and how good a network is at it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .data import Batches

__all__ = ["CLASSIFICATION", "Task"]

EVALUATED = 256
"""Examples in a batch of an evaluation."""


@dataclass(frozen=True)
class Task:
    """``loss`` of a network for a batch; ``score``: mean over examples of what ``scores`` says of a batch, in percent.

    ``labels`` of a batch, where synthetic gradients are given them.
    """

    name: str
    loss: Callable[[nn.Module, Any], Tensor]
    scores: Callable[[nn.Module, Any], Tensor]
    labels: Callable[[Any], Tensor]

    @torch.no_grad()
    def score(self, network: nn.Module, examples) -> float:
        """In evaluation mode; the network is left in the mode it was in."""
        training = network.training
        network.eval()
        try:
            scores = list(self._scores(network, examples))
        finally:
            network.train(training)
        return 100 * float(torch.cat(scores).double().mean())

    def _scores(self, network, examples) -> Iterator[Tensor]:
        for batch in Batches(examples, EVALUATED, 0, 0, shuffle=False):
            yield self.scores(network, batch)


CLASSIFICATION = Task(
    "classification",
    loss=lambda network, batch: F.cross_entropy(network(batch[0]), batch[1]),
    scores=lambda network, batch: (network(batch[0]).argmax(1) == batch[1]).float(),
    labels=lambda batch: batch[1],
)
"""Top-1 accuracy."""
