"""The predictor's weights in and out: what of them a run begins with and what a checkpoint holds.

The host can't reach the operand copies where the commands use them, which may be on chip: programs copy them there from
tensors called ``staging``, and back.
"""

from collections.abc import Mapping
from dataclasses import astuple
from typing import TYPE_CHECKING

import numpy as np

from ...spec.numerics import CHANNELS, EXP_MIN, KERNEL, UNIT_FRACTION, WINDOWS, unpredicted
from ...spec.phases import EVALUATION
from ...spec.schedule import State
from ..compiler.compiler import PREDICTOR_LOAD, PREDICTOR_SAVE
from ..compiler.predictor import PREDICTION_EXPONENT, Predictor
from ..compiler.quantise import master_exponent, split_master
from ..devices.device import Device

if TYPE_CHECKING:
    from .network import Network

__all__ = ["initial", "install", "load", "restore", "snapshot"]

STATE = ("weight", "low", "first", "second")
COPY_PHASE = EVALUATION  # whatever the phase, a copy is one


def initial(n_outputs: int, seed: int) -> dict[str, np.ndarray]:
    """The weights a predictor of so many outputs begins with, by layer: filters as rows ``[r][s][c]`` and bias."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    rows = {}
    for name, (q, c, r) in {"conv": (CHANNELS, 1, KERNEL), "fc": (n_outputs, CHANNELS, WINDOWS)}.items():
        bound = (c * r * r) ** -0.5  # torch's own for convolutions and linear layers
        weights = torch.empty(q, r * r * c + 1, dtype=torch.float64).uniform_(-bound, bound, generator=generator)
        rows[name] = weights.numpy()
    return rows


def install(network: "Network", device: Device) -> None:
    """Put the programs that copy on the device, and tell where it may keep the weights."""
    for program in network.compiled.copies.values():
        device.write(program.address, program.words())
    device.set_predictor_window(network.compiled.window)


def _copy(network, device, name):
    device.start(network.compiled.copies[name], COPY_PHASE)
    device.wait()


def load(network: "Network", device: Device, seed: int) -> None:
    """Put first weights, empty moments and the marks of what isn't predicted on the device, at the schedule's begin."""
    device.set_adam_powers(UNIT_FRACTION, UNIT_FRACTION)
    device.set_position(State())
    if not isinstance(network.predictor, Predictor):
        assert network.predictor is not None
        network.predictor.load(network.tensors, device)
        return
    width = network.config.operand_width
    for name, rows in initial(network.predictor.rows, seed).items():
        prefix = f"predictor.{name}"
        exponent = master_exponent(rows, width)
        for what, array in zip(("staging", "low"), split_master(rows, exponent, width), strict=True):
            network.write(device, f"{prefix}.{what}", array)
        for what in ("first", "second", "gradient"):
            tensor = network.tensors[f"{prefix}.{what}"]
            network.write(device, tensor.name, np.zeros(tensor.shape, tensor.dtype))
        device.set_exponents(network.tensors[f"{prefix}.weight"].number, exponent, exponent)
        for what in ("first", "second"):
            device.set_exponents(network.tensors[f"{prefix}.{what}"].number, EXP_MIN, EXP_MIN)
    device.set_exponents(network.tensors["predictor.prediction"].number, PREDICTION_EXPONENT)
    for name in network.predictor.scales:
        device.set_scale(network.tensors[name].number, 0)
    _mark(network, device)
    _copy(network, device, PREDICTOR_LOAD)


def _mark(network, device):
    """Biases aren't predicted."""
    for layer in network.predictor.layers if network.predictor.guesses else ():
        tensor = network.tensors[f"{layer.name}.predicted"]
        network.write(
            device, tensor.name, np.full(tensor.shape, unpredicted(network.config.operand_width), tensor.dtype)
        )


def _places(network):
    """What a checkpoint holds, by name: the tensor that the host writes and reads."""
    if not isinstance(network.predictor, Predictor):
        return {name: name for name in network.predictor.kept}
    names = [(f"predictor.{name}", what) for name in network.predictor.shapes for what in STATE]
    return {f"{name}.{what}": f"{name}.staging" if what == "weight" else f"{name}.{what}" for name, what in names}


def snapshot(network: "Network", device: Device) -> dict[str, np.ndarray]:
    """What later batches depend on, as arrays by name."""
    assert network.predictor is not None
    if network.predictor.guesses:
        _copy(network, device, PREDICTOR_SAVE)
    arrays = {name: network.read(device, place) for name, place in _places(network).items()}
    arrays["scales"] = np.array([device.scale(network.tensors[name].number) for name in network.predictor.scales])
    arrays["adam_powers"] = np.array(device.adam_powers(), np.uint64)
    position, gate_open = device.position()
    arrays["position"] = np.array([*astuple(position), gate_open], np.int64)
    return arrays


def restore(network: "Network", device: Device, arrays: Mapping[str, np.ndarray]) -> None:
    """The state of a :func:`snapshot`, bit for bit."""
    assert network.predictor is not None
    for name, place in _places(network).items():
        network.write(device, place, arrays[name])
    if network.predictor.guesses:
        _copy(network, device, PREDICTOR_LOAD)
    for name, (exponent, fraction) in zip(network.predictor.scales, arrays["scales"].tolist(), strict=True):
        device.set_scale(network.tensors[name].number, exponent, fraction)
    device.set_adam_powers(*arrays["adam_powers"].tolist())
    epoch, batch, gp, left, gate_open = arrays["position"].tolist()
    device.set_position(State(epoch, batch, bool(gp), left), bool(gate_open))
    _mark(network, device)
