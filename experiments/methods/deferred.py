"""Updates of GP batches that wait for the next batch with true gradients: an experiment, which no machine has."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...algorithm import AdaGP
from ...algorithm.updates import Updates
from ...spec.schedule import KEEP, Schedule

__all__ = ["Deferred", "WaitingUpdates"]


class WaitingUpdates(Updates):
    """Sums up steps of SGD without momentum, and takes them all at once when told to.

    Raises ValueError for another optimizer than SGD.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        super().__init__(optimizer, KEEP)
        self.sums: dict[nn.Parameter, Tensor] = {}
        """By weight, rate times gradient and decay, over the steps that wait."""

    @torch.no_grad()
    def apply(self, gradients: Mapping[nn.Parameter, Tensor], clip: Callable[[], object] | None = None) -> None:
        """Add a step to the sums, after ``clip`` has seen the gradients; weights stay, without gradients."""
        try:
            for weight, gradient in gradients.items():
                weight.grad = gradient
            if clip:
                clip()
            for weight in gradients:
                group = self._optimizer.param_groups[self._groups[weight]]
                assert weight.grad is not None
                gradient = -weight.grad if group["maximize"] else weight.grad
                step = gradient.add(weight, alpha=group["weight_decay"]).mul_(group["lr"])
                self.sums[weight] = self.sums[weight].add_(step) if weight in self.sums else step
        finally:
            for weight in gradients:
                weight.grad = None

    @torch.no_grad()
    def settle(self, *_: object) -> None:
        """Take the steps that wait."""
        for weight, step in self.sums.items():
            weight.sub_(step)
        self.sums.clear()


class Deferred(AdaGP):
    """Trains as :class:`adagp.AdaGP` with ``gp_momentum`` "keep" does, but a run of GP batches leaves weights alone.

    The sum of its steps is taken with that of the next batch with true gradients, or at the end of the epoch. So all
    batches of a run, and that batch, see the same weights. Decay is that of these weights, once for each step. A step
    that a GradScaler leaves out makes the others wait on. ``settings``: as AdaGP's.

    A GP batch's gradient is a matrix H of hidden values times the predictor's weights, which such a run doesn't change.
    So a machine may add up H over the run, and multiply once.
    """

    def __init__(
        self, network: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule, **settings: Any
    ):  # fmt: skip
        super().__init__(network, optimizer, schedule, gp_momentum=KEEP, **settings)
        self._waiting = self._updates = WaitingUpdates(optimizer)
        # GP batches don't call the optimizer, so its steps are those with true gradients.
        self._steps = optimizer.register_step_post_hook(self._waiting.settle)

    def end_epoch(self) -> None:
        """End an epoch; what waited is in the weights then."""
        self._waiting.settle()
        super().end_epoch()

    def state_dict(self) -> dict:
        """AdaGP's, and the sums that wait."""
        waiting = {name: self._waiting.sums.get(weight.weight) for name, weight in self._weights.items()}
        return {**super().state_dict(), "waiting": {name: sum_ for name, sum_ in waiting.items() if sum_ is not None}}

    def load_state_dict(self, state: dict) -> None:
        """Go on from a state that :meth:`state_dict` gave; raises ValueError as AdaGP does, and for a state of its."""
        if "waiting" not in state:
            raise ValueError("the state isn't one of Deferred's")
        super().load_state_dict(state)
        weights = {name: self._weights[name].weight for name in state["waiting"]}
        self._waiting.sums = {w: state["waiting"][name].to(w.device, copy=True) for name, w in weights.items()}

    def close(self) -> None:
        """Take all hooks out of network and optimizer; steps that wait are taken."""
        self._waiting.settle()
        self._steps.remove()
        super().close()
