"""Weights that are rows of a larger parameter, as those of queries, keys and values in MultiheadAttention are."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .capture import Captured, shape_of
from .lowering import Layer
from .operator_sets import WEIGHTED
from .operators import weights_of

__all__ = ["Rows", "rows_of", "torn"]

_ATEN = torch.ops.aten
_SPLITS = (_ATEN.split_with_sizes.default, _ATEN.split.Tensor, _ATEN.chunk.default)
_PARTS = (operator.getitem, _ATEN.slice.Tensor, *_SPLITS)


@dataclass(frozen=True)
class Rows:
    """Rows of a parameter, which the state dict has under that name."""

    parameter: str
    first: int


def rows_of(arg: Any, captured: Captured) -> Rows | None:
    """The rows of a parameter that a weight is, if nothing else is the same tensor; else None."""
    path = [arg]
    while path[-1].target in _PARTS:
        path.append(path[-1].args[0])
    root = path[-1]
    if root.name not in captured.parameters or len(arg.users) > 1:
        return None
    shape = shape_of(root)
    found: Any = torch.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1)).expand(shape)
    for view in reversed(path[:-1]):
        target: Any = view.target
        found = target(found, *view.args[1:], **view.kwargs)
    if found.shape[1:] != shape[1:] or not found.numel():
        return None
    rows = found.reshape(len(found), -1)[:, 0]
    return Rows(captured.parameters[root.name], int(rows[0])) if (rows.diff() == 1).all() else None


def torn(layers: Mapping[fx.Node, Layer], captured: Captured) -> dict[fx.Node, str]:
    """Layers whose weights are rows of a parameter of which others aren't the device's, with that as the reason."""
    of: dict[str, list[tuple[int, int, fx.Node]]] = {}
    for node, layer in layers.items():
        for arg in weights_of(node) if node.target in WEIGHTED else ():
            rows = rows_of(arg, captured)
            assert rows is not None, node
            of.setdefault(rows.parameter, []).append((rows.first, rows.first + layer.q, node))
    roots = {name: node for node in captured.nodes if (name := captured.parameters.get(node.name))}
    found: dict[fx.Node, str] = {}
    for name, parts in of.items():
        parts.sort(key=lambda part: part[0])
        ends = [0, *(end for _, end, _ in parts)]
        complete = [first for first, _, _ in parts] == ends[:-1] and ends[-1] == shape_of(roots[name])[0]
        if not complete or _readers(roots[name]) != {node for _, _, node in parts}:
            found |= {
                node: f"the host computes with other rows of {name}, or two operators use the same"
                for _, _, node in parts
            }
    return found


def _readers(node: fx.Node) -> set[fx.Node]:
    """The nodes that read a parameter or a part of it."""
    found: set[fx.Node] = set()
    for user in node.users:
        found |= _readers(user) if user.target in _PARTS else {user}
    return found
