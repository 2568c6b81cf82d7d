"""An island's computation: its captured operators executed one by one in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from .capture import path_of

__all__ = ["IslandFunction"]

_ATEN = torch.ops.aten
_NOTHING = torch.zeros((), dtype=torch.float64)
_REAL = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, eq=False)
class IslandFunction:
    """Operators in order, and how their placeholders get their values; called as :class:`islands.Function`.

    ``parameters`` and ``buffers`` map nodes to state-dict names, ``constants`` to tensors. ``mutated`` are nodes with
    buffers' new values. ``evaluation`` is the computation in evaluation if it is another; inputs that it doesn't read
    and outputs that nothing reads then are None.
    """

    steps: tuple[fx.Node, ...]
    inputs: tuple[fx.Node | None, ...]
    outputs: tuple[fx.Node | None, ...]
    parameters: dict[fx.Node, str]
    buffers: dict[fx.Node, str]
    constants: dict[fx.Node, torch.Tensor]
    mutated: dict[fx.Node, str]
    evaluation: "IslandFunction | None" = None

    def __call__(
        self, parameters: dict[str, Any], buffers: dict[str, Any], inputs: list[Any], *, training: bool, seed: int
    ) -> tuple[list[Any], dict[str, Any]]:
        if not training and self.evaluation is not None:
            found, _ = self.evaluation(parameters, buffers, inputs, training=False, seed=seed)
            shapes = [node.meta["val"].shape for node in self.outputs if node is not None]
            return [output.expand(shape) for output, shape in zip(found, shapes, strict=True)], {}
        values: dict[fx.Node, Any] = {node: parameters[name] for node, name in self.parameters.items()}
        values |= {node: _real(buffers[name]) for node, name in self.buffers.items()}
        values |= {node: _real(tensor) for node, tensor in self.constants.items()}
        for node, value in zip(self.inputs, inputs, strict=True):
            if node is None:
                continue
            meta = node.meta["val"]
            whole = not meta.dtype.is_floating_point
            values[node] = (value.detach().round().to(meta.dtype) if whole else value).reshape(meta.shape)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            for node in self.steps:
                args = fx.node.map_arg(node.args, values.__getitem__)
                kwargs = fx.node.map_arg(node.kwargs, values.__getitem__)
                try:
                    values[node] = _execute(node.target, args, kwargs)
                except Exception as error:
                    raise RuntimeError(f"{path_of(node) or 'the network'}: {node.target}: {error}") from error
        changed = {name: values[node].detach() for node, name in self.mutated.items()} if training else {}
        return [_NOTHING if node is None else values[node].to(torch.float64) for node in self.outputs], changed


def _real(tensor):
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def _execute(target, args, kwargs):
    """One operator; floats are float64."""
    own = _OWN.get(target)
    if own is not None:
        return own(*args, **kwargs)
    return target(*map(_wide, args), **{name: _wide(value) for name, value in kwargs.items()})


def _wide(argument):
    """An argument, with the type of reals as float64."""
    return torch.float64 if isinstance(argument, torch.dtype) and argument in _REAL else argument


def _batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon):
    mean, variance = mean.clone(), variance.clone()
    result = functional.batch_norm(x, mean, variance, weight, bias, training, momentum, epsilon)
    return result, None, None, mean, variance


def _dropout(x, p, train):
    return functional.dropout(x, p, train is not False), None


def _attention(query, key, value, mask=None, p=0.0, causal=False, **more):
    return functional.scaled_dot_product_attention(query, key, value, mask, p, causal, **more)


_OWN: dict[object, Callable] = {
    _ATEN._native_batch_norm_legit_functional.default: _batch_norm,
    _ATEN.native_dropout.default: _dropout,
    _ATEN.scaled_dot_product_attention.default: _attention,
}
"""Operators with a function of their own: in float64 PyTorch's has no derivative, or draws other numbers."""
