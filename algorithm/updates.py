"""Some weights' update by an optimizer that has many."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

__all__ = ["Updates"]


class Updates:
    """Lets any optimizer update some of its weights, each with its own state as in a step of all.

    For the optimizer it is a step in which all others have no gradient; it isn't shown them, which saves the time.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._optimizer = optimizer
        # By number: a loaded state brings groups of its own.
        self._groups = {p: number for number, group in enumerate(optimizer.param_groups) for p in group["params"]}

    def trained(self) -> set[nn.Parameter]:
        """All weights that the optimizer has."""
        return set(self._groups)

    def apply(self, gradients: Mapping[nn.Parameter, Tensor]) -> None:
        """A step of these weights alone; they are left without gradients."""
        groups = self._optimizer.param_groups
        chosen: dict[int, list[nn.Parameter]] = {}
        for weight in gradients:
            chosen.setdefault(self._groups[weight], []).append(weight)
        members = {number: groups[number]["params"] for number in chosen}
        try:
            for weight, gradient in gradients.items():
                weight.grad = gradient
            for number, weights in chosen.items():
                groups[number]["params"] = weights
            self._optimizer.param_groups = [groups[number] for number in chosen]
            step: Callable[[], object] = self._optimizer.step
            step()
        finally:
            self._optimizer.param_groups = groups
            for number, before in members.items():
                groups[number]["params"] = before
            for weight in gradients:
                weight.grad = None
