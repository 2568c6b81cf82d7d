"""Steps of an optimizer with some of its weights."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from ..spec.schedule import GP_MOMENTUM, KEEP

__all__ = ["Updates"]


class Updates:
    """Lets any optimizer update some of its weights, each with its own state as in a step with all.

    The result is that of a step in which the others have no gradient. The optimizer isn't shown them, to save time.
    With ``momentum`` "keep" it is one of SGD without momentum, which leaves the momenta as they are. Raises ValueError
    for another word, and for "keep" with another optimizer.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, momentum: str = "update"):
        if momentum not in GP_MOMENTUM:
            raise ValueError(f"gp_momentum is {momentum!r}, and must be one of {', '.join(GP_MOMENTUM)}")
        if momentum == KEEP and not isinstance(optimizer, torch.optim.SGD):
            raise ValueError(f"gp_momentum is {KEEP!r}, which is for SGD, not for {type(optimizer).__name__}")
        self._optimizer, self._keeps = optimizer, momentum == KEEP
        # By number: a loaded state brings groups of its own.
        self._groups = {p: number for number, group in enumerate(optimizer.param_groups) for p in group["params"]}

    def trained(self) -> set[nn.Parameter]:
        """The weights that the optimizer has."""
        return set(self._groups)

    def apply(self, gradients: Mapping[nn.Parameter, Tensor], clip: Callable[[], object] | None = None) -> None:
        """Step with these weights alone, after ``clip`` has seen their gradients; they are left without gradients."""
        groups = self._optimizer.param_groups
        chosen: dict[int, list[nn.Parameter]] = {}
        for weight in gradients:
            chosen.setdefault(self._groups[weight], []).append(weight)
        members = {number: groups[number]["params"] for number in chosen}
        momenta = {number: groups[number]["momentum"] for number in chosen if self._keeps}
        try:
            for weight, gradient in gradients.items():
                weight.grad = gradient
            if clip:
                clip()
            for number, weights in chosen.items():
                groups[number]["params"] = weights
            for number in momenta:  # without momentum SGD neither reads nor writes its buffers
                groups[number]["momentum"] = 0
            self._optimizer.param_groups = [groups[number] for number in chosen]
            step: Callable[[], object] = self._optimizer.step
            step()
        finally:
            self._optimizer.param_groups = groups
            for number, before in members.items():
                groups[number]["params"] = before
            for number, value in momenta.items():
                groups[number]["momentum"] = value
            for weight in gradients:
                weight.grad = None
