"""Weights of a pipeline's stages by layer, from the devices that have them."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..compiler.lowering import Kind
from ..training.layer_state import add_to, statistics_of, weights_of
from .steps import PipelineError
from .worker import Worker

__all__ = ["bits_of", "states_of", "united"]


def states_of(worker: Worker) -> dict[str, dict[str, torch.Tensor]]:
    """The parts of a state dict that a device has, by layer."""
    found: dict[str, dict[str, torch.Tensor]] = {}
    for layer in worker.compiled.layers:
        if layer.weighted:
            found[layer.name] = weights_of(worker.device, worker.compiled.slots[0], layer)
            if layer.kind is Kind.NORM:
                found[layer.name] |= statistics_of(worker.device, worker.compiled.slots[0], layer)
    return found


def bits_of(worker: Worker) -> dict[str, bytes]:
    """The weights, momenta and exponents that a device has, by layer."""
    found: dict[str, bytes] = {}
    for layer in worker.compiled.layers:
        if layer.weighted:
            bits = _Bits()
            add_to(bits, worker.device, worker.compiled.slots[0], layer)
            found[layer.name] = b"".join(bits.parts)
    return found


def united(parts: Iterable[Mapping[str, Any]], alike: bool = False) -> dict[str, Any]:
    """All layers' parts; raises PipelineError if replicas of a layer should be ``alike`` and aren't."""
    found: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if alike and found.get(name, value) != value:
                raise PipelineError(f"{name}: the replicas have different weights")
            found[name] = value
    return found


class _Bits:
    """A hash that only keeps what it is given."""

    def __init__(self):
        self.parts: list[bytes] = []

    def update(self, data: bytes, /) -> None:
        self.parts.append(data)
