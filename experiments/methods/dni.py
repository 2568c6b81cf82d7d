"""Synthetic gradients in the manner of decoupled neural interfaces (Jaderberg et al., 2017), the paper's section 2.

Each layer has a small network of its own that guesses, for each image, the gradient of the loss to the layer's output
from that output and the label. In GP batches a layer's weight gradient is what follows from the guess: forward and the
weight's half of backward are computed, the other half and the loss aren't.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight

from ...algorithm.layers import predicted_weights
from ...algorithm.predictor import PredictorSettings
from ...algorithm.schedules import Position
from ...algorithm.updates import Updates
from ...spec.commands import Phase
from ...spec.schedule import Schedule

__all__ = ["HIDDEN", "Dni", "Guesser"]

HIDDEN = 32
"""Values between the layers of a guesser, for each place."""


class Guesser(nn.Module):
    """From an output [batch, channels, *places] and labels to the gradient of the same shape: two layers of 1 x 1.

    The second begins as zero, so that at first there is no guess.
    """

    scale: Tensor

    def __init__(self, channels: int, n_classes: int, hidden: int):
        super().__init__()
        self.first, self.label = nn.Linear(channels, hidden), nn.Embedding(n_classes, hidden)
        self.second = nn.Linear(hidden, channels)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)
        self.register_buffer("scale", torch.zeros(()))

    def forward(self, output: Tensor, labels: Tensor) -> Tensor:
        """Over the running RMS of true gradients."""
        rows = output.flatten(2).transpose(1, 2) if output.dim() > 2 else output[:, None]
        guess = self.second(F.relu(self.first(rows) + self.label(labels)[:, None]))
        return guess.transpose(1, 2).reshape(output.shape)


@dataclass
class _Seen:
    """A layer's output in a batch, and the true gradient of it when it has come."""

    guesser: Guesser
    output: Tensor
    gradient: Tensor | None = None

    def learn(self, gradient: Tensor) -> None:
        """For backward to call."""
        self.gradient = gradient


class Dni:
    """Trains as :class:`adagp.AdaGP` does, but with synthetic gradients of layers' outputs in GP batches.

    For networks of Conv2d and Linear, each used once, with labels of ``n_classes``.
    """

    def __init__(
        self, network: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule, n_classes: int, *,
        hidden: int = HIDDEN, lr: float = PredictorSettings.lr, decay: float = PredictorSettings.decay,
        seed: int = 0,
    ):  # fmt: skip
        self.optimizer, self._position = optimizer, Position(schedule)
        self._updates, self._decay = Updates(optimizer), decay
        weights = predicted_weights(network, self._updates.trained())
        for weight in weights:
            if not isinstance(weight.module, nn.Conv2d | nn.Linear):
                raise TypeError(f"{weight.name} isn't a weight of Conv2d or Linear")
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            guessers = nn.ModuleList(Guesser(len(w.weight), n_classes, hidden) for w in weights)
        self.guessers = guessers.to(weights[0].weight.device) if weights else guessers
        self._guess_optimizer = torch.optim.Adam(self.guessers.parameters(), lr)
        self._labels, self._learning, self._active = torch.empty(0), True, False
        self._seen: list[_Seen] = []
        for weight, guesser in zip(weights, self.guessers, strict=True):
            weight.module.register_forward_hook(self._hook(weight.module, guesser))
        self.phase = Phase.WARMUP

    def epoch(self, batches: Iterable) -> Iterator:
        """Pass ``batches`` on; the epoch is over when they are."""
        yield from batches
        self._position.end_epoch()

    def step(self, compute: Callable[[], Tensor], labels: Tensor) -> Tensor:
        """Train with one batch: ``compute`` runs the network once and returns the loss."""
        self.phase = self._position.next()
        self._position.advance()
        self.optimizer.zero_grad(set_to_none=True)
        self._labels, self._learning = labels, self.phase is not Phase.GP
        with self._watching(), torch.set_grad_enabled(self._learning):
            loss = compute()
        if self._learning:
            loss.backward()
            self._learn()
            self.optimizer.step()
        return loss.detach()

    @contextmanager
    def _watching(self):
        self._active = True
        self._seen.clear()
        try:
            yield
        finally:
            self._active = False

    def _hook(self, module, guesser):
        def seen(_, args, output):
            if not self._active:
                return
            if self._learning:  # what comes behind may change the output in place
                seen = _Seen(guesser, output.detach().clone())
                output.register_hook(seen.learn)
                self._seen.append(seen)
            else:
                gradient = guesser(output, self._labels) * guesser.scale.sqrt()
                self._update(module, args[0], gradient)

        return seen

    def _update(self, module, x, gradient):
        if isinstance(module, nn.Conv2d):
            how = (module.stride, module.padding, module.dilation, module.groups)
            weight, channels = conv2d_weight(x, module.weight.shape, gradient, *how), 1
        else:
            weight, channels = gradient.flatten(0, -2).T @ x.flatten(0, -2), gradient.dim() - 1
        gradients = {module.weight: weight}
        if module.bias is not None and module.bias.requires_grad:
            gradients[module.bias] = gradient.sum([d for d in range(gradient.dim()) if d != channels])
        self._updates.apply(gradients)

    def _learn(self):
        losses = []
        for guesser, output, true in ((s.guesser, s.output, s.gradient) for s in self._seen):
            if true is None:
                continue
            now = true.square().mean()
            guesser.scale.copy_(torch.where(guesser.scale > 0, torch.lerp(now, guesser.scale, self._decay), now))
            tiny = torch.finfo(torch.float32).tiny
            losses.append(F.mse_loss(guesser(output, self._labels), true / guesser.scale.sqrt().clamp_min(tiny)))
        self._guess_optimizer.zero_grad(set_to_none=True)
        torch.stack(losses).sum().backward()
        self._guess_optimizer.step()
        self._seen.clear()

    def state_dict(self) -> dict:
        """All that it adds to network and optimizer."""
        return {"guessers": self.guessers.state_dict(), "optimizer": self._guess_optimizer.state_dict(),
                "position": self._position.state()}  # fmt: skip

    def load_state_dict(self, state: dict) -> None:
        """Go on from what :meth:`state_dict` gave."""
        self.guessers.load_state_dict(state["guessers"])
        self._guess_optimizer.load_state_dict(state["optimizer"])
        self._position.go_to(state["position"])
