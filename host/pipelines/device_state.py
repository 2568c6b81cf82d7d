"""State of a pipeline's devices by the names of tensors, and its way to and from a network on one device."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..compiler.lowering import Layer
from ..compiler.tensors import LOSS_GRADIENT, PREDICTOR, layer_tensor
from ..devices.device import Device
from ..islands.tensor_access import read_tensor, write_tensor
from ..training.network import Network
from .staged_network import Pipelined
from .steps import What
from .worker import Worker

__all__ = ["State", "from_devices", "from_network", "to_devices", "to_network"]

_NOT_SHARED = ("scales", "position")
"""Arrays of a predictor's state that aren't the same on all devices."""
Exponents = tuple[int, int | None]
"""A tensor's current exponent, and the next one of a tensor that outlasts a batch."""


@dataclass(frozen=True)
class State:
    """Everything that later batches depend on: mantissas of weights, momenta and statistics, and exponents.

    ``scales``: of the layers' predictions; ``predictor``: its state on the first device, which all others share.
    """

    arrays: dict[str, np.ndarray]
    exponents: dict[str, Exponents]
    scales: dict[str, tuple[int, int]]
    predictor: dict[str, np.ndarray]


def from_devices(pipelined: Pipelined) -> State:
    """The state that this process' devices have: of their layers, and exponents of what they compute."""
    state = State({}, {}, {}, {})
    for worker in pipelined.workers:
        tensors = worker.compiled.slots[0]
        kept = _names(worker.compiled.layers)
        state.arrays.update({name: read_tensor(worker.device, tensors[name]) for name in kept})
        own = {name for name in tensors if name.startswith(f"{PREDICTOR}.")} if worker.place == 0 else set()
        for name in {*kept, *_followed(worker), *own}:
            if tensors[name].number >= 0 and not name.startswith(LOSS_GRADIENT):
                state.exponents[name] = worker.device.exponents(tensors[name].number)
        for name in {layer_tensor(layer, "scale") for layer in worker.compiled.layers} & {*worker.staged.source.scales}:
            state.scales[name] = worker.device.scale(tensors[name].number)
        if worker.place == 0:
            found = worker.gradient_state.snapshot(worker.device)
            state.predictor.update({name: array for name, array in found.items() if name not in _NOT_SHARED})
    return state


def to_devices(pipelined: Pipelined, state: State) -> None:
    """Put the state on this process' devices, which have been loaded with a network before."""
    for worker in pipelined.workers:
        for name in _names(worker.compiled.layers):
            write_tensor(worker.device, worker.compiled.slots[0][name], state.arrays[name])
        for slot in worker.compiled.slots:
            for name in slot.keys() & state.exponents.keys():
                worker.device.set_exponents(slot[name].number, *state.exponents[name])
        scales = [state.scales[name] for name in worker.staged.source.scales]
        worker.gradient_state.restore(worker.device, state.predictor | {"scales": np.array(scales)})


def from_network(network: Network, device: Device) -> State:
    """The state of a network on one device."""
    names, found = list(network.compiled.source.scales), network.gradient_state.snapshot(device)
    numbers = {name: each.number for name, each in network.tensors.items() if each.number >= 0 and name not in names}
    scales = dict(zip(names, map(tuple, found.pop("scales", np.array([])).tolist()), strict=True))
    return State(
        {name: network.read(device, name) for name in _names(network.weighted)},
        {name: device.exponents(number) for name, number in numbers.items() if not name.startswith(LOSS_GRADIENT)},
        scales, found,
    )  # fmt: skip


def to_network(network: Network, device: Device, state: State) -> None:
    """Put the state of some devices of a pipeline on a device that has the whole network; its schedule stays."""
    for name, array in state.arrays.items():
        network.write(device, name, array)
    for name, exponents in state.exponents.items():
        device.set_exponents(network.tensors[name].number, *exponents)
    found, names = network.gradient_state.snapshot(device), list(network.compiled.source.scales)
    for name, scale in state.scales.items():
        found["scales"][names.index(name)] = scale
    network.gradient_state.restore(device, found | state.predictor)


def _names(layers: Iterable[Layer]) -> list[str]:
    """Names of the tensors that outlast a batch."""
    return [layer_tensor(layer, part) for layer in layers if layer.weighted for part in layer.state]


def _followed(worker: Worker) -> set[str]:
    """Names of the tensors whose exponents follow from maxima that a device sees.

    A pooling's result shares the exponent of what it pools, which another device may have seen.
    """
    found = set()
    for stage in {step.stage for step in worker.compiled.steps}:
        for what in (What.FORWARD, What.BACKWARD, What.UPDATE, What.LEARN, What.ADAM):
            for command in worker.staged.sections.of(what, stage):
                if command.fields.get("track"):
                    found.add(command.numbers.get("out", command.operands["out"]))
    return found
