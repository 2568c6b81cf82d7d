"""Sources of a GP batch's gradients: the predictor, and those that its predictions are compared with."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ..spec.numerics import MEAN_SHIFT
from ..spec.schedule import PREDICTING, SOURCES
from .predictor import Predictor

__all__ = ["Source"]


class Source:
    """Source of gradients in GP batches; ``kept``: true gradients by name, where the source uses them."""

    def __init__(self, kind: str, predictor: Predictor, generator: torch.Generator):
        if kind not in SOURCES:
            raise ValueError(f"there is no source {kind!r} of gradients; there are {', '.join(SOURCES)}")
        self.kind, self._predictor, self._generator = kind, predictor, generator
        self.kept: dict[str, Tensor] = {}

    @property
    def predicts(self) -> bool:
        """True if the source needs outputs in GP batches."""
        return self.kind in PREDICTING

    @property
    def keeps(self) -> bool:
        """True if the source makes its gradients of earlier true ones."""
        return self.kind in ("last", "mean")

    @torch.no_grad()
    def learn(self, gradients: dict[str, Tensor]) -> None:
        """Take in the true gradients of a BP batch."""
        if not self.keeps:
            return
        for name, gradient in gradients.items():
            if self.kind == "last" or name not in self.kept:
                self.kept[name] = gradient.clone()
            else:
                self.kept[name].lerp_(gradient, 2.0**-MEAN_SHIFT)

    def gradients(self, weights: Mapping[str, Tensor], outputs: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
        """Gradients for ``weights``, in their shapes and types.

        ``outputs``: reorganised outputs of each, if the source predicts.
        """
        if self.predicts:
            found = self._predictor.gradients({name: output for name, output in outputs.items() if output is not None})
            if self.kind == "random":
                found = {name: self._with_random_signs(gradient) for name, gradient in found.items()}
            return {name: found[name].to(weight.dtype).view_as(weight) for name, weight in weights.items()}
        return {
            name: self.kept[name].to(weight.dtype, copy=True).view_as(weight)
            if name in self.kept else torch.zeros_like(weight)
            for name, weight in weights.items()
        }  # fmt: skip

    def _with_random_signs(self, gradient: Tensor) -> Tensor:
        signs = torch.randint(0, 2, gradient.shape, generator=self._generator).to(gradient)
        return gradient * (2 * signs - 1)
