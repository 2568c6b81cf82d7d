"""A compiled network's values and gradients in a device's memory, in torch's shapes as float64."""

from dataclasses import dataclass, replace

import numpy as np

from ..compiler.compiler import Compiled
from ..compiler.quantise import dequantise, exponent_for, quantise
from ..devices.device import Device
from .tensor_access import read_tensor

__all__ = ["Places"]


@dataclass(frozen=True)
class Places:
    """Tensors on a device by name; ``entry`` is the place of the batch's images in the input ring.

    ``value`` names the value that has a tensor's shape: a gradient has that of its value.
    """

    compiled: Compiled
    device: Device
    entry: int = 0

    def read(self, name: str, value: str) -> np.ndarray:
        """A tensor's numbers."""
        tensor = self.compiled.tensors[name]
        ring = name in self.compiled.graph.inputs
        address = tensor.address + (self.entry * self.compiled.entry_bytes if ring else 0)
        stored = read_tensor(self.device, replace(tensor, address=address))
        exponent, _ = self.device.exponents(tensor.number)
        shaped = self.compiled.values[value].from_memory(dequantise(stored, exponent))
        return np.ascontiguousarray(shaped).reshape(shaped.shape)  # which makes a scalar an array

    def write(self, name: str, value: str, array: np.ndarray) -> None:
        """Set a tensor, at an exponent of its own; raises ValueError for numbers that can't be stored."""
        tensor, width = self.compiled.tensors[name], self.compiled.config.operand_width
        exponent = exponent_for(float(np.abs(array).max(initial=0.0)), width)
        stored = quantise(self.compiled.values[value].to_memory(array), exponent, width)
        self.device.write(tensor.address, stored.reshape(tensor.shape))
        self.device.set_exponents(tensor.number, exponent)
