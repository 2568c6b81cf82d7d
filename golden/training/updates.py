"""One weight's update by an optimizer that has many."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["Updates"]


class Updates:
    """Lets any optimizer update its weights one after the other, each with its own state as in a step of all.

    For the optimizer it is a step in which all others have no gradient; it isn't shown them, which saves the time.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._optimizer = optimizer
        # By number: a loaded state brings groups of its own.
        self._groups = {p: number for number, group in enumerate(optimizer.param_groups) for p in group["params"]}

    def trained(self) -> set[nn.Parameter]:
        """All weights that the optimizer has."""
        return set(self._groups)

    @torch.no_grad()
    def apply(self, weight: nn.Parameter, gradient: Tensor) -> None:
        """A step of ``weight`` alone; it is left without a gradient."""
        groups = self._optimizer.param_groups
        group = groups[self._groups[weight]]
        members = group["params"]
        weight.grad = gradient
        try:
            group["params"], self._optimizer.param_groups = [weight], [group]
            step: Callable[[], object] = self._optimizer.step
            step()
        finally:
            group["params"], self._optimizer.param_groups = members, groups
            weight.grad = None
