"""Layers' weights as rows in memory, from a torch state dict and back, and the names of shared ones."""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import nn

from ..compiler.graph import Graph
from ..compiler.islands import Island
from ..compiler.lowering import Kind, Layer, LoweringError
from ..compiler.norm_state import export_states, import_states

__all__ = ["canonical_names", "from_rows", "from_statistics", "merged", "to_rows", "to_statistics"]


def to_rows(layer: Layer, state: Mapping) -> np.ndarray:
    """A layer's filters as rows [r][s][c] and bias, or a batch norm's planes; LoweringError if one isn't finite."""
    shape = (layer.q, layer.depth, layer.r, layer.s)
    weight, bias = layer.parameters
    if layer.kind is Kind.NORM:
        return _finite(layer, np.stack([np.asarray(state[name], np.float64) for name in layer.parameters]))
    own = slice(layer.first_row, layer.first_row + layer.q)
    filters = np.asarray(state[weight], np.float64)[own].reshape(shape).transpose(0, 2, 3, 1).reshape(layer.q, -1)
    biases = np.asarray(state[bias], np.float64)[own] if bias else np.zeros(layer.q)
    return _finite(layer, np.concatenate([filters, biases[:, None]], axis=1))


def _finite(layer: Layer, rows: np.ndarray) -> np.ndarray:
    if not np.isfinite(rows).all():
        raise LoweringError(f"{layer.name}: weights must be finite")
    return rows


def from_rows(layer: Layer, rows: np.ndarray) -> dict[str, torch.Tensor]:
    """The layer's part of a state dict."""
    weight, bias = layer.parameters
    if layer.kind is Kind.NORM:
        return {name: torch.from_numpy(plane.copy()) for name, plane in zip(layer.parameters, rows, strict=True)}
    filters = rows[:, :-1].reshape(layer.q, layer.r, layer.s, layer.depth).transpose(0, 3, 1, 2)
    found = {weight: torch.from_numpy(filters.reshape(layer.torch_shape).copy())}
    return found | ({bias: torch.from_numpy(rows[:, -1].copy())} if bias else {})


def merged(parts: Iterable[tuple[Layer, Mapping[str, torch.Tensor]]]) -> dict[str, torch.Tensor]:
    """The layers' parts of a state dict as one: rows of a parameter that several layers have come together."""
    found: dict[str, list[tuple[int, torch.Tensor]]] = {}
    for layer, state in parts:
        for name, tensor in state.items():
            found.setdefault(name, []).append((layer.first_row, tensor))
    ordered = {name: sorted(each, key=lambda part: part[0]) for name, each in found.items()}
    return {name: torch.cat([tensor for _, tensor in each]) for name, each in ordered.items()}


def to_statistics(layer: Layer, state: Mapping) -> np.ndarray:
    """The table of a batch norm's running statistics."""
    mean, variance = (np.asarray(state[name], np.float64) for name in layer.buffers[:2])
    return import_states(mean, variance)


def from_statistics(layer: Layer, table: np.ndarray) -> dict[str, torch.Tensor]:
    """Running mean and variance in a state dict."""
    return {
        name: torch.from_numpy(array) for name, array in zip(layer.buffers[:2], export_states(table), strict=True)
    }  # fmt: skip


def canonical_names(module: nn.Module, graph: Graph) -> dict[str, str]:
    """The state dict's names in order, each with the one under which the graph has the same tensor."""
    used = {name for node in graph.nodes for name in node.parameters}
    used |= {name for node in graph.nodes if isinstance(node, Island) for name in node.buffers}
    shared: dict[int, str] = {}
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for name in sorted(parameters, key=lambda name: name not in used):
        shared.setdefault(id(parameters[name]), name)
    return {name: shared.get(id(parameters.get(name)), name) for name in module.state_dict()}
