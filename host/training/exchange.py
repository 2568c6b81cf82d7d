"""Exchange with a device in a batch: arguments in, results out, the loss's gradients in, all as float64."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ...spec.config import Config
from ..compiler.graph import Graph
from ..compiler.quantise import dequantise, exponent_for, quantise
from ..compiler.tensors import Tensor, loss_gradient
from ..compiler.values import Input, Value
from ..devices.device import Device
from ..islands.tensor_access import read_tensor, write_tensor

__all__ = ["Exchanged", "input_exponent", "read_results", "write_inputs", "write_loss_gradients"]


class Exchanged(Protocol):
    """The parts of a compiled network that exchange reads; see Compiled."""

    @property
    def config(self) -> Config: ...
    @property
    def graph(self) -> Graph: ...
    @property
    def values(self) -> Mapping[str, Value]: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    @property
    def entry_bytes(self) -> int: ...
    @property
    def micro_batches(self) -> int: ...


def input_exponent(argument: Input, width: int) -> int:
    """The exponent of an argument; raises ValueError for integers that are too large."""
    if not argument.whole:
        return exponent_for(argument.largest, width)
    if exponent_for(argument.largest, width) > 0:
        raise ValueError(f"integers up to {argument.largest} don't fit an operand of {width} bits")
    return 0


def write_inputs(
    compiled: Exchanged, device: Device, arguments: Sequence[Input], arrays: Sequence[np.ndarray], entry: int
) -> None:
    """Quantise a batch of arguments into an entry of the input ring.

    Raises ValueError for another number of arrays, another shape, or values that are too large or, of integers, broken.
    """
    graph = compiled.graph
    if len(arrays) != len(arguments):
        raise ValueError(f"the network takes {len(arguments)} arguments, not {len(arrays)}")
    stored = []
    for number, (name, argument, array) in enumerate(zip(graph.inputs, arguments, arrays, strict=True)):
        value, what = compiled.values[name], "an input" if len(arrays) == 1 else f"input {number}"
        shape = (compiled.micro_batches * value.shape[0], *argument.shape)
        if array.shape != shape:
            raise ValueError(f"{what} must have the shape {shape}, not {array.shape}")
        largest = float(np.abs(array).max(initial=0))
        if not largest <= argument.largest:
            raise ValueError(f"{what} of magnitude {largest} exceeds input_max = {argument.largest}")
        if argument.whole and not np.array_equal(array, np.rint(array)):
            raise ValueError(f"{what} must have integers alone")
        width = compiled.config.operand_width
        for place, part in enumerate(array.reshape(compiled.micro_batches, *value.shape)):
            mantissas = quantise(value.to_memory(part), input_exponent(argument, width), width)
            address = compiled.tensors[name].address + place * compiled.entry_bytes // compiled.micro_batches
            stored.append((address, mantissas))
    for address, mantissas in stored:
        device.write(address + entry * compiled.entry_bytes, mantissas)


def read_results(compiled: Exchanged, device: Device) -> list[np.ndarray]:
    """The network's results, each of the shape that torch's module gives."""
    found = []
    for result in compiled.graph.results:
        tensor = compiled.tensors[result.name]
        exponent, _ = device.exponents(tensor.number)
        stored = dequantise(read_tensor(device, tensor), exponent)
        found.append(np.ascontiguousarray(compiled.values[result.name].from_memory(stored)).reshape(result.shape))
    return found


def write_loss_gradients(compiled: Exchanged, device: Device, gradients: Sequence[np.ndarray]) -> None:
    """Quantise the loss's gradients by the results, each at an exponent of its own, and set that.

    Raises ValueError for another number of gradients, or another number of elements.
    """
    graph, width = compiled.graph, compiled.config.operand_width
    if len(gradients) != len(graph.results):
        raise ValueError(f"the network has {len(graph.results)} results, not {len(gradients)}")
    for number, (result, gradient) in enumerate(zip(graph.results, gradients, strict=True)):
        tensor, value = compiled.tensors[loss_gradient(number)], compiled.values[result.name]
        if gradient.size != np.prod(tensor.shape):
            raise ValueError(f"a loss gradient must have {np.prod(tensor.shape)} elements, not {gradient.size}")
        shaped = gradient.reshape(value.shape)
        if graph.masks(result.name) and not graph.clamped(result.name):  # else the machine masks it
            of_value = compiled.tensors[result.name]
            shaped = np.where(value.from_memory(read_tensor(device, of_value)) > 0, shaped, 0)
        exponent = exponent_for(float(np.abs(shaped).max()), width)
        write_tensor(device, tensor, quantise(value.to_memory(shaped), exponent, width))
        device.set_exponents(tensor.number, exponent)
