"""Finiteness of many tensors by one small answer."""

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["not_finite"]


@torch.no_grad()
def not_finite(tensors: Mapping[str, Tensor], *, squares: bool = False) -> list[str]:
    """Names of the tensors that have an infinite element, or one that isn't a number.

    With ``squares`` also of those whose squares add up to infinity. Waits for the device once, for one number from each
    tensor, as long as all is well.
    """
    if not tensors:
        return []
    norms = torch.stack(list(torch._foreach_norm(list(tensors.values()))))
    large = [name for name, finite in zip(tensors, norms.isfinite().tolist(), strict=True) if not finite]
    return [name for name in large if squares or not tensors[name].isfinite().all()]
