"""Operators that are captured as others which the machine has: attention and products as batched products.

They are plain functions of torch's operators, as :meth:`torch.export.ExportedProgram.run_decompositions` takes them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["DECOMPOSITIONS", "WITH_PRODUCTS"]

_ATEN = torch.ops.aten


def _matmul(a: Tensor, b: Tensor) -> Any:
    if a.dim() < 2 or b.dim() < 2:
        return NotImplemented
    if a.dim() == b.dim() == 2:
        return torch.mm(a, b)
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (each.expand(*lead, *each.shape[-2:]) for each in (a, b))
    return _products(a, b).view(*lead, a.shape[-2], b.shape[-1])


def _products(a: Tensor, b: Tensor) -> Tensor:
    return torch.bmm(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]))


def _unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    return tuple(x.select(dim, place) for place in range(x.shape[dim]))


def _baddbmm(added: Tensor, a: Tensor, b: Tensor, *, beta=1, alpha=1) -> Tensor:
    product = torch.bmm(a, b)
    product = product if alpha == 1 else product * alpha
    return product + added if beta == 1 else product + added * beta


def _attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0, causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """The softmax has its operand divided, rather than the query and the key, so that these are products' operands."""
    lead = query.shape[:-2]
    if enable_gqa or query.dim() < 3 or key.shape[:-2] != lead or value.shape[:-2] != lead:
        return NotImplemented
    length, others = query.shape[-2], key.shape[-2]
    keys = key.reshape(-1, *key.shape[-2:]).transpose(1, 2)
    scores = torch.bmm(query.reshape(-1, *query.shape[-2:]), keys).view(*lead, length, others)
    scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        later = torch.ones(length, others, dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if mask is None:
        weights = torch.softmax(scores, -1)
    else:  # a row that sees nothing gives zeros, as torch's does, and zeros as its gradient
        blind = (scores == -torch.inf).all(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
    if dropout > 0:
        weights = _ATEN.native_dropout.default(weights, dropout, True)[0]
    return _products(weights, value).view(*lead, length, value.shape[-1])


DECOMPOSITIONS: dict[Any, Callable] = {
    _ATEN.matmul.default: _matmul, _ATEN.baddbmm.default: _baddbmm, _ATEN.unbind.int: _unbind,
    _ATEN.scaled_dot_product_attention.default: _attention,
}  # fmt: skip
"""Decompositions by operator."""

WITH_PRODUCTS = (
    _ATEN.bmm.default, _ATEN.mm.default, _ATEN.matmul.default, _ATEN.baddbmm.default,
    _ATEN.scaled_dot_product_attention.default,
)  # fmt: skip
"""Operators that multiply two values."""
