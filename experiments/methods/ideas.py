"""Ideas for GP batches that are worth their cost: less than the true gradient instead of a prediction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ...algorithm.layers import predicted_weights
from ...algorithm.schedules import Position
from ...spec.commands import Phase
from ...spec.numerics import MEAN_SHIFT
from ...spec.schedule import Schedule
from .half_resolution import Halving, halved

__all__ = ["IDEAS", "Idea", "gp_macs"]

IDEAS = {
    "half": "true, of half of the batch's examples",
    "sparse": "true, but each layer but the last passes on, and learns from, those of a quarter of its channels, the"
              " largest",
    "narrow": "of a network of which each layer but the last has only a random half of its channels, forward too",
    "late": "true, of the second half of the layers; backward ends there",
    "late-mean": "as `late`, and the first half of the layers goes on with the exponential mean of its true gradients",
    "hard": "of that quarter of the examples whose outputs have the largest gradients, as if the others had none",
    "drawn": "of a quarter of the examples, drawn by their outputs' gradients and weighted: the batch's in the mean",
    "coarse": "true, but of images half as wide and high; what the first linear layer sees is repeated",
}  # fmt: skip
"""The gradients of GP batches, by name."""
KEPT = 0.25
"""Share that is kept: of a layer's channels in ``sparse``, of a batch's examples in ``hard`` and ``drawn``."""


def gp_macs(idea: str, layers: Sequence[tuple[int, int]]) -> int:
    """MACs of a GP batch, but for ``coarse``; ``layers``: in order, those of forward and of backward to its inputs."""
    forward, data = (sum(column) for column in zip(*layers, strict=True))
    if idea == "half":
        return (2 * forward + data) // 2
    if idea == "sparse":
        last = sum(layers[-1])
        return forward + last + round(KEPT * (forward + data - last))
    if idea in ("hard", "drawn"):
        return forward + round(KEPT * (forward + data))
    if idea == "narrow":
        last = len(layers) - 1
        shares = [(0.5 if place else 1) * (0.5 if place < last else 1) for place in range(len(layers))]
        return round(sum(share * (2 * f + d) for share, (f, d) in zip(shares, layers, strict=True)))
    behind = layers[len(layers) // 2 :]
    return forward + sum(f for f, _ in behind) + sum(d for _, d in behind[1:])


class Idea:
    """Trains as :class:`adagp.AdaGP` does, but with one of IDEAS in GP batches.

    But for ``half``, for networks of Conv2d and Linear that run one after the other. Raises ValueError for an unknown
    idea, and but for ``half`` for batch normalisation: examples and channels that are left out would have their part in
    others' gradients, and the batch its whole cost; of smaller images it would have other statistics.
    """

    def __init__(
        self, idea: str, network: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule, seed: int = 0
    ):  # fmt: skip
        if idea not in IDEAS:
            raise ValueError(f"there is no idea {idea!r}; there are {', '.join(IDEAS)}")
        if idea != "half" and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules()):
            raise ValueError(f"{idea} is for networks without batch normalisation")
        self.idea, self.optimizer, self._position = idea, optimizer, Position(schedule)
        self._generator = torch.Generator().manual_seed(seed)
        weights = predicted_weights(network, set(network.parameters()))
        n_early = len(weights) // 2
        self._early = [weight.weight for weight in weights[:n_early]]
        self._means: list[Tensor] = []
        self._gp = False
        self.halving = Halving(network)
        """The network inside of it is as in GP batches of ``coarse``."""
        for place, weight in enumerate(weights):
            hook = self._hook(len(weight.weight), place == n_early - 1, place == len(weights) - 1)
            weight.module.register_forward_hook(hook)
        self.phase = Phase.WARMUP

    def _hook(self, channels: int, last_early: bool, last: bool):
        def seen(_, args, output):
            if not self._gp:
                return None
            if self.idea == "sparse" and not last:
                output.register_hook(lambda gradient: gradient * _largest(gradient, round(KEPT * channels)))
            if self.idea in ("hard", "drawn") and last:
                output.register_hook(self._of_some)
            if self.idea == "narrow" and not last:
                count = max(1, channels // 2)
                alive = torch.randperm(channels, generator=self._generator) < count
                return output * _along(alive.to(output) * channels / count, output)
            return output.detach() if self.idea.startswith("late") and last_early else None

        return seen

    def epoch(self, batches: Iterable) -> Iterator:
        """Pass ``batches`` on; the epoch is over when they are."""
        yield from batches
        self._position.end_epoch()

    def step(self, compute: Callable[[Any], Tensor], batch: Sequence[Tensor]) -> Tensor:
        """Train with one batch: ``compute`` runs the network once with what it is given of it, and returns the loss."""
        self.phase = self._position.next()
        self._position.advance()
        self._gp = self.phase is Phase.GP
        coarse = self._gp and self.idea == "coarse"
        if coarse:
            batch = halved(batch[0]), *batch[1:]
        elif self._gp and self.idea == "half":
            batch = tuple(part[: (len(part) + 1) // 2] for part in batch)
        self.optimizer.zero_grad(set_to_none=True)
        with self.halving if coarse else nullcontext():
            loss = compute(batch)
        loss.backward()
        if self.idea == "late-mean":
            self._mean()
        self.optimizer.step()
        self._gp = False
        return loss.detach()

    def _of_some(self, gradient: Tensor) -> Tensor:
        """The loss's gradient by the network's outputs [batch, classes] for some examples, 0 for all others."""
        norms, count = gradient.norm(dim=1), max(1, round(KEPT * len(gradient)))
        if self.idea == "hard" or not 0 < norms.sum() < torch.inf:
            chosen, weights = norms.topk(count).indices, torch.ones(count, device=norms.device)
        else:
            drawn = torch.multinomial(norms.cpu(), count, replacement=True, generator=self._generator)
            chosen = drawn.to(norms.device)
            weights = norms.sum() / norms[chosen] / count
        return gradient * torch.zeros_like(norms).index_add(0, chosen, weights)[:, None]

    def _mean(self) -> None:
        if self._gp:
            for weight, mean in zip(self._early, self._means, strict=False):
                weight.grad = mean.clone()
        elif not self._means:
            self._means = [weight.grad.clone() for weight in self._early if weight.grad is not None]
        else:
            for weight, mean in zip(self._early, self._means, strict=True):
                assert weight.grad is not None
                mean.lerp_(weight.grad, 2.0**-MEAN_SHIFT)

    def state_dict(self) -> dict:
        """All that it adds to network and optimizer."""
        return {"position": self._position.state(), "generator": self._generator.get_state(), "means": self._means}

    def load_state_dict(self, state: dict) -> None:
        """Go on from what :meth:`state_dict` gave."""
        self._position.go_to(state["position"])
        self._generator.set_state(state["generator"])
        self._means = [mean.to(weight.device) for mean, weight in zip(state["means"], self._early, strict=False)]


def _along(values: Tensor, output: Tensor) -> Tensor:
    """By channel: the second of a convolution's four dimensions, a linear layer's last."""
    return values.view(-1, 1, 1) if output.dim() == 4 else values


def _largest(gradient: Tensor, count: int) -> Tensor:
    """1 for the ``count`` channels with the largest norms, else 0."""
    others = (0, 2, 3) if gradient.dim() == 4 else (0,)
    norms = gradient.square().sum(others)
    kept = torch.zeros_like(norms)
    kept[norms.topk(max(1, count)).indices] = 1
    return _along(kept, gradient)
