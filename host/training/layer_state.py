"""A layer's state on a device: weights, momenta and running statistics, with their exponents."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch

from ..compiler.lowering import Kind, Layer
from ..compiler.quantise import FIRST_MOMENTUM, join_master, master_exponent, split_master
from ..compiler.tensors import Tensor, layer_tensor
from ..devices.device import Device
from ..islands.tensor_access import read_tensor, write_tensor, zero_tensor
from .layer_weights import from_rows, from_statistics, to_rows, to_statistics

__all__ = ["add_to", "load_layer", "statistics_of", "weights_of"]


class Digest(Protocol):
    """A hash that grows."""

    def update(self, data: bytes, /) -> None: ...


def load_layer(device: Device, tensors: Mapping[str, Tensor], layer: Layer, state: Mapping, width: int) -> None:
    """Put a layer's weights of a state dict on the device, with zero momentum; ``width``: that of operands."""
    rows = to_rows(layer, state)
    exponent = master_exponent(rows, width)
    of = {part: tensors[layer_tensor(layer, part)] for part in ("weight", "low", "momentum", "weight_gradient")}
    for part, array in zip(("weight", "low"), split_master(rows, exponent, width), strict=True):
        write_tensor(device, of[part], array)
    for part in ("momentum", "weight_gradient"):  # the gradient of an absent bias stays zero
        zero_tensor(device, of[part])
    device.set_exponents(of["weight"].number, exponent, exponent)
    device.set_exponents(of["momentum"].number, FIRST_MOMENTUM, FIRST_MOMENTUM)
    if layer.kind is Kind.NORM:
        write_tensor(device, tensors[layer_tensor(layer, "statistics")], to_statistics(layer, state))


def weights_of(device: Device, tensors: Mapping[str, Tensor], layer: Layer) -> dict[str, torch.Tensor]:
    """A layer's master weights, as its part of a state dict (float64)."""
    weight, low = (tensors[layer_tensor(layer, part)] for part in ("weight", "low"))
    exponent, _ = device.exponents(weight.number)
    return from_rows(layer, join_master(read_tensor(device, weight), read_tensor(device, low), exponent))


def statistics_of(device: Device, tensors: Mapping[str, Tensor], layer: Layer) -> dict[str, torch.Tensor]:
    """A batch norm's running statistics, as its part of a state dict."""
    return from_statistics(layer, read_tensor(device, tensors[layer_tensor(layer, "statistics")]))


def add_to(digest: Digest, device: Device, tensors: Mapping[str, Tensor], layer: Layer) -> None:
    """Add a layer's master weights, momenta and their exponents to a hash."""
    for part in layer.state:
        digest.update(np.ascontiguousarray(read_tensor(device, tensors[layer_tensor(layer, part)])).tobytes())
    for part in ("weight", "momentum"):
        digest.update(repr(device.exponents(tensors[layer_tensor(layer, part)].number)).encode())
