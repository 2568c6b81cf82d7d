"""State on the device of a network's source of gradients: what a run begins with and what a checkpoint holds.

The host can't reach the operand copies of the predictor's weights where commands use them, which may be on chip:
programs copy them there from tensors called ``staging``, and back.
"""

from collections.abc import Mapping
from dataclasses import astuple
from typing import Protocol

import numpy as np

from ...spec.config import Config
from ...spec.numerics import CHANNELS, EXP_MIN, KERNEL, UNIT_FRACTION, WINDOWS, unpredicted
from ...spec.phases import EVALUATION
from ...spec.schedule import State
from ..compiler.gradient_source import GradientSource
from ..compiler.predictor import PREDICTION_EXPONENT, PREDICTOR_LOAD, PREDICTOR_SAVE, Predictor
from ..compiler.quantise import master_exponent, split_master
from ..compiler.substitutes import Substitute
from ..compiler.tensors import KEPT_SHIFT, Tensor, layer_tensor, predictor_tensor
from ..compiler.window_sums import windows_table
from ..devices.device import Device
from ..islands.tensor_access import read_tensor, write_tensor, zero_tensor
from ..program import Program

__all__ = ["GradientState", "first_weights", "gradient_state"]

FIRST_EXPONENT = -24
"""Exponent of kept gradients while they are zero: those of 2^-71 to 2^-9 an LSB can be added in calibration."""


class Held(Protocol):
    """The owner of a source of gradients: a compiled network, or a device's part of a pipeline.

    ``tensors`` by name, ``copies``: the source's own programs, ``window``: addresses of the predictor memory.
    """

    @property
    def config(self) -> Config: ...
    @property
    def source(self) -> GradientSource: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    @property
    def copies(self) -> Mapping[str, Program]: ...
    @property
    def window(self) -> range: ...


class GradientState:
    """State of a source that has none: true gradients only."""

    def __init__(self, compiled: Held):
        self.compiled = compiled

    def install(self, device: Device) -> None:
        """Put programs on the device, and tell it where it may keep the predictor's weights: nowhere."""
        device.set_predictor_window(0)

    def load(self, device: Device, seed: int) -> None:
        """Put the state on the device that a run begins with."""

    def snapshot(self, device: Device) -> dict[str, np.ndarray]:
        """The state as arrays by name."""
        return {}

    def restore(self, device: Device, arrays: Mapping[str, np.ndarray]) -> None:
        """Put the state of a :meth:`snapshot` on the device, bit for bit."""

    def tensor(self, name: str) -> Tensor:
        """The tensor called ``name``."""
        return self.compiled.tensors[name]


class ScheduledState(GradientState):
    """State of a source with a phase GP: the schedule's position, and the arrays of :attr:`places`."""

    places: Mapping[str, str] = {}
    """Tensors that the host reads and writes, by the names of the arrays."""

    def load(self, device: Device, seed: int) -> None:
        device.set_adam_powers(UNIT_FRACTION, UNIT_FRACTION)
        device.set_position(State())

    def snapshot(self, device: Device) -> dict[str, np.ndarray]:
        arrays = self._read(device)
        scales = self.compiled.source.scales
        arrays["scales"] = np.array([device.scale(self.tensor(name).number) for name in scales])
        arrays["adam_powers"] = np.array(device.adam_powers(), np.uint64)
        position, gate_open = device.position()
        arrays["position"] = np.array([*astuple(position), gate_open], np.int64)
        return arrays

    def restore(self, device: Device, arrays: Mapping[str, np.ndarray]) -> None:
        self._write(device, arrays)
        scales = self.compiled.source.scales
        for name, (exponent, fraction) in zip(scales, arrays["scales"].tolist(), strict=True):
            device.set_scale(self.tensor(name).number, exponent, fraction)
        device.set_adam_powers(*arrays["adam_powers"].tolist())
        epoch, batch, gp, left, gate_open = arrays["position"].tolist()
        device.set_position(State(epoch, batch, bool(gp), left), bool(gate_open))

    def _read(self, device: Device) -> dict[str, np.ndarray]:
        return {name: read_tensor(device, self.tensor(place)) for name, place in self.places.items()}

    def _write(self, device: Device, arrays: Mapping[str, np.ndarray]) -> None:
        for name, place in self.places.items():
            write_tensor(device, self.tensor(place), arrays[name])


class SubstituteState(ScheduledState):
    """Gradients kept from earlier batches."""

    def __init__(self, compiled: Held, source: Substitute):
        super().__init__(compiled)
        self.source = source
        self.places = {name: name for name in source.kept}

    def load(self, device: Device, seed: int) -> None:
        super().load(device, seed)
        for name in self.source.kept:
            zero_tensor(device, self.tensor(name))
            device.set_exponents(self.tensor(name).number, FIRST_EXPONENT, FIRST_EXPONENT)
        if self.source.kept:
            device.set_exponents(self.tensor(KEPT_SHIFT).number, self.source.kept_shift)


class PredictorState(ScheduledState):
    """The predictor's weights and moments, and the marks of weights that have no prediction."""

    def __init__(self, compiled: Held, source: Predictor):
        super().__init__(compiled)
        self.source = source
        staged = {"weight": "staging"}
        self.places = {
            predictor_tensor(part, name): predictor_tensor(staged.get(part, part), name)
            for name in source.shapes for part in ("weight", "low", "first", "second")
        }  # fmt: skip

    def install(self, device: Device) -> None:
        """Put the programs that copy on the device, and tell it where it may keep the weights."""
        for program in self.compiled.copies.values():
            device.write(program.address, program.words())
        device.set_predictor_window(self.compiled.window.start)

    def load(self, device: Device, seed: int) -> None:
        super().load(device, seed)
        width = self.compiled.config.operand_width
        for layer, rows in first_weights(self.source.rows, seed).items():
            tensors = {part: self.tensor(predictor_tensor(part, layer)) for part in (
                "staging", "weight", "low", "first", "second", "gradient",
            )}  # fmt: skip
            exponent = master_exponent(rows, width)
            for part, array in zip(("staging", "low"), split_master(rows, exponent, width), strict=True):
                write_tensor(device, tensors[part], array)
            for part in ("first", "second", "gradient"):
                zero_tensor(device, tensors[part])
            device.set_exponents(tensors["weight"].number, exponent, exponent)
            for part in ("first", "second"):
                device.set_exponents(tensors[part].number, EXP_MIN, EXP_MIN)
        device.set_exponents(self.tensor(predictor_tensor("prediction")).number, PREDICTION_EXPONENT)
        for name in self.source.scales:
            device.set_scale(self.tensor(name).number, 0)
        self._write_constants(device)
        self._copy(device, PREDICTOR_LOAD)

    def restore(self, device: Device, arrays: Mapping[str, np.ndarray]) -> None:
        super().restore(device, arrays)
        self._write_constants(device)

    def _read(self, device: Device) -> dict[str, np.ndarray]:
        self._copy(device, PREDICTOR_SAVE)
        return super()._read(device)

    def _write(self, device: Device, arrays: Mapping[str, np.ndarray]) -> None:
        super()._write(device, arrays)
        self._copy(device, PREDICTOR_LOAD)

    def _copy(self, device: Device, name: str) -> None:
        """Run one of the programs that copy; it does the same in any phase."""
        device.start(self.compiled.copies[name], EVALUATION)
        device.wait()

    def _write_constants(self, device: Device) -> None:
        """Mark all weights as not predicted; predictions leave the marks of biases. Write the tables of windows.

        A device of a pipeline has the tensors of its own layers alone.
        """
        for name, (height, columns) in self.source.windows.items():
            if name not in self.compiled.tensors:
                continue
            table, exponent = windows_table(self.source.batch, height, columns, self.compiled.config.operand_width)
            write_tensor(device, self.tensor(name), table)
            device.set_exponents(self.tensor(name).number, exponent)
        mark = unpredicted(self.compiled.config.operand_width)
        names = [layer_tensor(layer, "predicted") for layer in self.source.layers]
        for tensor in (self.tensor(name) for name in names if name in self.compiled.tensors):
            write_tensor(device, tensor, np.full(tensor.shape, mark, tensor.dtype))


def gradient_state(compiled: Held) -> GradientState:
    """The state of a source of gradients on a device."""
    match compiled.source:
        case Predictor():
            return PredictorState(compiled, compiled.source)
        case Substitute():
            return SubstituteState(compiled, compiled.source)
        case _:
            return GradientState(compiled)


def first_weights(n_outputs: int, seed: int) -> dict[str, np.ndarray]:
    """The first weights of a predictor of so many outputs, by its layers: filters as rows ``[r][s][c]`` and bias."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    rows = {}
    for name, (q, c, r) in {"conv": (CHANNELS, 1, KERNEL), "fc": (n_outputs, CHANNELS, WINDOWS)}.items():
        bound = (c * r * r) ** -0.5  # torch's own for convolutions and linear layers
        weights = torch.empty(q, r * r * c + 1, dtype=torch.float64).uniform_(-bound, bound, generator=generator)
        rows[name] = weights.numpy()
    return rows
