"""Finiteness of many tensors by one small answer."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["not_finite"]


@torch.no_grad()
def not_finite(tensors: Mapping[str, Tensor], order: float = math.inf) -> list[str]:
    """Names of the tensors that have an infinite element, or one that isn't a number.

    With ``order`` 2 also of those whose squares add up to infinity. Waits for the device once, for one number from each
    tensor. No tensor may be empty.
    """
    if not tensors:
        return []
    norms = torch.stack(list(torch._foreach_norm(list(tensors.values()), order)))
    return [name for name, finite in zip(tensors, norms.isfinite().tolist(), strict=True) if not finite]
