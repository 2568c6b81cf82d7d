"""Sets of PyTorch's operators by what the compiler does with them."""

import torch

__all__ = ["BATCH_NORM", "DROPOUT", "IDENTITIES", "MOVING", "RELUS", "VIEWS", "WEIGHTED"]

_ATEN = torch.ops.aten
BATCH_NORM = _ATEN._native_batch_norm_legit_functional.default
DROPOUT = _ATEN.native_dropout.default
IDENTITIES = frozenset(
    {_ATEN.alias.default, _ATEN.clone.default, _ATEN.contiguous.default, _ATEN.lift_fresh_copy.default}
)
"""Operators whose result is their operand."""
VIEWS = IDENTITIES | {
    _ATEN.view.default, _ATEN.reshape.default, _ATEN._unsafe_view.default, _ATEN.flatten.using_ints,
    _ATEN.unsqueeze.default, _ATEN.squeeze.dim, _ATEN.squeeze.dims, _ATEN.squeeze.default, _ATEN.permute.default,
    _ATEN.transpose.int, _ATEN.t.default, _ATEN.expand.default, _ATEN.select.int, _ATEN.slice.Tensor,
    _ATEN.split_with_sizes.default, _ATEN.split.Tensor, _ATEN.chunk.default, _ATEN.unflatten.int,
}  # fmt: skip
"""Operators that only arrange values; the host repeats them wherever it needs them."""

RELUS = frozenset({
    _ATEN.relu.default, _ATEN.relu6.default, _ATEN.hardtanh.default, _ATEN.clamp.default, _ATEN.clamp_min.default,
    _ATEN.leaky_relu.default,
})  # fmt: skip
"""ReLU, and operators that can be one with a bound or a slope."""


WEIGHTED = (_ATEN.conv2d.default, _ATEN.conv2d.padding, _ATEN.linear.default)
"""Operators with weights."""
MOVING = frozenset({
    _ATEN.permute.default, _ATEN.transpose.int, _ATEN.t.default,
    _ATEN.expand.default, _ATEN.select.int, _ATEN.slice.Tensor,
    _ATEN.split_with_sizes.default, _ATEN.split.Tensor, _ATEN.chunk.default,
})  # fmt: skip
"""Views that are no other name of the same memory."""
