"""Where a GP batch has its gradients from: the predictor, or what its predictions are to be compared with."""

import torch
from torch import Tensor

from ...spec.numerics import MEAN_SHIFT
from ...spec.schedule import PREDICTING, SOURCES
from .predictor import Predictor

__all__ = ["Source"]


class Source:
    """Gradients of GP batches; ``kept``: true gradients by name, as far as the source has use for them."""

    def __init__(self, kind: str, predictor: Predictor, generator: torch.Generator):
        if kind not in SOURCES:
            raise ValueError(f"there is no source {kind!r} of gradients; there are {', '.join(SOURCES)}")
        self.kind, self._predictor, self._generator = kind, predictor, generator
        self.kept: dict[str, Tensor] = {}

    @property
    def predicts(self) -> bool:
        """Whether it needs outputs in GP batches."""
        return self.kind in PREDICTING

    @torch.no_grad()
    def learn(self, gradients: dict[str, Tensor]) -> None:
        """True gradients of a BP batch."""
        if self.kind not in ("last", "mean"):
            return
        for name, gradient in gradients.items():
            if self.kind == "last" or name not in self.kept:
                self.kept[name] = gradient.clone()
            else:
                self.kept[name].lerp_(gradient, 2.0**-MEAN_SHIFT)

    @torch.no_grad()
    def gradient(self, name: str, like: Tensor, reorganised: Tensor | None) -> Tensor:
        """For the weight ``like``, in its shape and type."""
        if self.kind == "zero" or (self.kind in ("last", "mean") and name not in self.kept):
            return torch.zeros_like(like)
        if reorganised is None:
            return self.kept[name].to(like.dtype, copy=True).view_as(like)
        gradient = self._predictor.gradient(name, reorganised)
        if self.kind == "random":
            signs = torch.randint(0, 2, gradient.shape, generator=self._generator).to(gradient)
            gradient = gradient * (2 * signs - 1)
        return gradient.to(like.dtype).view_as(like)
