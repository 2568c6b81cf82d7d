"""A network on the accelerator: its tensors by name, its weights in and out, its batches."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from ...spec.config import Config
from ...spec.numerics import EXP_MIN
from ...spec.registers import Status
from ..compiler.compiler import Compiled, compile_network
from ..compiler.front_end import graph_of
from ..compiler.ir import HYPER
from ..compiler.lowering import Kind, Layer, LoweringError
from ..compiler.predictor_steps import ADAM_HYPER, BETAS
from ..compiler.quantise import constant, dequantise, exponent_for, join_master, master_exponent, quantise, split_master
from ..compiler.tensors import INPUT, LOSS_GRADIENT, Tensor, layer_tensor
from ..compiler.values import Value
from ..devices.device import Device, DeviceError
from ..islands.runtime import Islands, Moment
from ..islands.state import Hyper
from ..program import Program
from .gradient_state import GradientState, gradient_state
from .tensor_access import read_tensor, write_tensor, zero_tensor

__all__ = ["Network"]

STATE = ("weight", "low", "momentum")
"""A layer's tensors that make up its state."""


class Network:
    """A torch.nn.Module bound to an input shape, a batch size and a configuration.

    A batch: :meth:`write_input`, :meth:`start`, :meth:`wait`, :meth:`read_logits`, in training
    :meth:`write_loss_gradient`, ``device.resume()``, :meth:`wait`.

    Parameters
    ----------
    module: the network; its parameters aren't kept (see :meth:`load_state`)
    input_shape: (C, H, W) or (features,)
    batch: images of a batch, always all of them
    input_max: largest magnitude an input may have; decides the input's exponent
    ring_entries: batches of input that memory has room for
    source: name of the source of gradients in phase GP (see settings); None: there is no such phase

    Attributes
    ----------
    compiled: layers, tensors, memory plan, program and gradient source
    gradient_state: the gradient source's state on a device
    islands: parts that the host computes, with their state

    Raises
    ------
    LoweringError, MappingError, PlanError
        if the accelerator can't run the network
    """

    def __init__(
        self, module, input_shape: tuple[int, ...], batch: int, config: Config, *, input_max: float = 1.0,
        ring_entries: int = 1, source: str | None = None,
    ):  # fmt: skip
        self.input_shape, self.batch, self.config, self.ring_entries = tuple(input_shape), batch, config, ring_entries
        self.input_max = input_max
        self.input_exponent = exponent_for(input_max, config.operand_width)
        graph = graph_of(module, self.input_shape, batch, config)
        self.compiled: Compiled = compile_network(graph, batch, config, ring_entries, source)
        self.gradient_state: GradientState = gradient_state(self.compiled)
        self._names = list(module.state_dict())
        on_device = {name for layer in self.trained for name in layer.parameters}
        self.islands = Islands(self.compiled, [name for name in self._names if name not in on_device])

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.compiled.layers

    @property
    def program(self) -> Program:
        return self.compiled.program

    @property
    def tensors(self) -> dict[str, Tensor]:
        return self.compiled.tensors

    @property
    def n_outputs(self) -> int:
        """Numbers that the network gives for an image."""
        return int(np.prod(self._result.shape[1:]))

    @property
    def _result(self) -> Value:
        return self.compiled.values[self.compiled.graph.result]

    @property
    def trained(self) -> list[Layer]:
        """The layers with weights."""
        return [layer for layer in self.layers if layer.kind is Kind.GEMM]

    # --- setting up -------------------------------------------------------------------------------

    def install(self, device: Device) -> None:
        """Put program and settings on the device; raises DeviceError if it isn't the one compiled for."""
        if device.config.config_hash != self.config.config_hash:
            raise DeviceError(f"the network is compiled for {self.config.name}, the device is {device.config.name}")
        plan = self.compiled.plan
        if plan.n_bytes > device.memory_size:
            raise DeviceError(f"the network needs {plan.n_bytes} bytes of memory, the device has {device.memory_size}")
        device.write(self.program.address, self.program.words())
        regions = [plan.region(group) for group in ("state", "predictor", "activations")]
        device.set_regions([(first, end) for first, end in regions if first < end])
        device.set_ring(self.tensors[INPUT].address, self.compiled.entry_bytes, self.ring_entries)
        self.gradient_state.install(device)

    def load_state(self, device: Device, state: Mapping, seed: int = 0) -> None:
        """Install the network with the weights of a state dict (arrays or tensors by name) and zero momentum.

        ``seed`` decides the predictor's first weights.

        The first batch must be a calibrating one: the exponents of everything else aren't known yet.
        """
        self.install(device)
        for tensor in self.tensors.values():
            if tensor.number >= 0:
                device.set_exponents(tensor.number, 0)
        device.set_exponents(self.tensors[INPUT].number, self.input_exponent)
        for layer in self.trained:
            rows = self._rows(layer, state)
            exponent = master_exponent(rows, self.config.operand_width)
            high, low = split_master(rows, exponent, self.config.operand_width)
            write_tensor(device, self._tensor(layer, "weight"), high)
            write_tensor(device, self._tensor(layer, "low"), low)
            for part in ("momentum", "weight_gradient"):  # the gradient of an absent bias stays zero
                zero_tensor(device, self._tensor(layer, part))
            device.set_exponents(self._tensor(layer, "weight").number, exponent, exponent)
            device.set_exponents(self._tensor(layer, "momentum").number, EXP_MIN, EXP_MIN)
        self.islands.state.load(state)
        self.gradient_state.load(device, seed)

    def _rows(self, layer, state):
        """A layer's filters as rows [r][s][c] and bias."""
        shape = (layer.q, layer.c, layer.r, layer.s)
        weight, bias = layer.parameters
        filters = np.asarray(state[weight], np.float64).reshape(shape).transpose(0, 2, 3, 1).reshape(layer.q, -1)
        biases = np.asarray(state[bias], np.float64) if bias else np.zeros(layer.q)
        rows = np.concatenate([filters, biases[:, None]], axis=1)
        if not np.isfinite(rows).all():
            raise LoweringError(f"{layer.name}: weights must be finite")
        return rows

    # --- state ------------------------------------------------------------------------------------

    def state_dict(self, device: Device) -> dict:
        """The master weights and the islands' state as a torch state dict (float64), by the module's names."""
        import torch

        state = self.islands.state.state_dict()
        for layer in self.trained:
            exponent, _ = device.exponents(self._tensor(layer, "weight").number)
            high, low = (read_tensor(device, self._tensor(layer, part)) for part in ("weight", "low"))
            rows = join_master(high, low, exponent)
            weight, bias = layer.parameters
            filters = rows[:, :-1].reshape(layer.q, layer.r, layer.s, layer.c).transpose(0, 3, 1, 2)
            state[weight] = torch.from_numpy(filters.reshape(layer.torch_shape).copy())
            if bias:
                state[bias] = torch.from_numpy(rows[:, -1].copy())
        return {name: state[name] for name in self._names}

    def snapshot(self, device: Device) -> dict[str, np.ndarray]:
        """Everything that later batches depend on, as arrays by name: weights, momentum, all exponents."""
        arrays = {name: self.read(device, name) for name in self._state_names()}
        table = [device.exponents(number) for number in self._numbers()]
        current = [cur for cur, _ in table]
        persistent = [following is not None for _, following in table]
        following = [following or 0 for _, following in table]
        arrays["exponents"] = np.array([current, persistent, following], np.int16)
        return arrays | self.islands.state.snapshot() | self.gradient_state.snapshot(device)

    def restore(self, device: Device, arrays: Mapping[str, np.ndarray]) -> None:
        """Install the network with the state of a :meth:`snapshot`, bit for bit."""
        self.install(device)
        for layer in self.trained:
            zero_tensor(device, self._tensor(layer, "weight_gradient"))
        for name in self._state_names():
            self.write(device, name, arrays[name])
        for number, (current, persistent, following) in zip(
            self._numbers(), arrays["exponents"].T.tolist(), strict=True
        ):
            device.set_exponents(number, current, following if persistent else None)
        self.islands.state.restore(arrays)
        self.gradient_state.restore(device, arrays)

    def weights_hash(self, device: Device) -> str:
        """SHA-256 of master weights, momentum and their exponents, and of the islands' state.

        It is equal on all devices after equal training.
        """
        digest = hashlib.sha256()
        for layer in self.trained:
            for part in STATE:
                digest.update(read_tensor(device, self._tensor(layer, part)).tobytes())
            for part in ("weight", "momentum"):
                digest.update(repr(device.exponents(self._tensor(layer, part).number)).encode())
        self.islands.state.add_to(digest)
        return digest.hexdigest()

    def _state_names(self):
        return [layer_tensor(layer, part) for layer in self.trained for part in STATE]

    def _numbers(self):
        """Numbers of the tensors that have exponents."""
        scales = self.compiled.source.scales
        return sorted({t.number for name, t in self.tensors.items() if t.number >= 0 and name not in scales})

    # --- batches ----------------------------------------------------------------------------------

    def set_hyper(self, device: Device, learning_rate: float, momentum: float, weight_decay: float) -> None:
        """Set the parameters of SGD for the batches from now on."""
        for index, value in enumerate((learning_rate, momentum, weight_decay)):
            device.set_hyper(HYPER + index, *constant(value))
        self.islands.hyper = Hyper(learning_rate, momentum, weight_decay)

    def set_adam(self, device: Device, learning_rate: float) -> None:
        """Set the parameters of the predictor's Adam for the batches from now on; betas are torch's."""
        betas = [round(beta * (1 << 16)) for beta in BETAS]
        fractions = [value for beta in betas for value in (beta, (1 << 16) - beta)]
        for place, pair in enumerate([constant(learning_rate), *((value, -16) for value in fractions), (1, 0)]):
            device.set_hyper(ADAM_HYPER + place, *pair)

    def write_input(self, device: Device, x: np.ndarray, entry: int = 0) -> None:
        """Quantise a batch [N, *input_shape] into an entry of the input ring.

        Raises ValueError for another shape, an entry that isn't there, or values beyond ``input_max``.
        """
        tensor = self.tensors[INPUT]
        if x.shape != (self.batch, *self.input_shape):
            raise ValueError(f"an input must have the shape {(self.batch, *self.input_shape)}, not {x.shape}")
        if not 0 <= entry < self.ring_entries:
            raise ValueError(f"the input ring has {self.ring_entries} entries, there is no number {entry}")
        largest = float(np.abs(x).max())
        if not largest <= self.input_max:
            raise ValueError(f"an input of magnitude {largest} exceeds input_max = {self.input_max}")
        value = self.compiled.values[INPUT]
        stored = value.to_memory(x.reshape(value.shape))
        mantissas = quantise(stored, self.input_exponent, self.config.operand_width)
        device.write(tensor.address + entry * self.compiled.entry_bytes, mantissas)

    def start(
        self, device: Device, phase: int | None, *, batches: int = 1, calibrate: bool = False,
        scheduled: Sequence[int] = (), moment: Moment | None = None,
    ) -> None:  # fmt: skip
        """Begin batches in a phase (0 warm-up, 1 BP, 2 GP, 3 evaluation; None: as scheduled), at entry 0 of the ring.

        Islands need to know the ``scheduled`` phases, and the run's ``moment`` if they draw random numbers.

        Only those of training change state. Raises ValueError for a batch that can't calibrate: any of GP, and with a
        predictor those of BP, in which no command sees all of its weights.
        """
        if calibrate and phase is not None and not self.compiled.source.calibrating & 1 << phase:
            raise ValueError(f"the batch that calibrates is one of warm-up, not of phase {phase}")
        if self.ring_entries > 1:
            device.set_ring_index(0)
        self.islands.begin(scheduled if phase is None else [phase] * batches, moment)
        device.start(self.program, phase, batches, calibrate)

    def wait(self, device: Device) -> Status:
        """Wait until the program needs the loss's gradient or has ended, and compute islands meanwhile."""
        return self.islands.wait(device)

    def read_logits(self, device: Device) -> np.ndarray:
        """The network's result, [N, ...] as torch's module gives it (flattened beyond the batch), float64."""
        tensor = self.tensors[self._result.name]
        exponent, _ = device.exponents(tensor.number)
        return self._result.from_memory(dequantise(self.read(device, tensor.name), exponent)).reshape(self.batch, -1)

    def write_loss_gradient(self, device: Device, gradient: np.ndarray) -> None:
        """Quantise the loss's gradient by the logits [N, ...] at an exponent of its own, and set that."""
        tensor = self.tensors[LOSS_GRADIENT]
        if gradient.size != np.prod(tensor.shape):
            raise ValueError(f"a loss gradient must have {np.prod(tensor.shape)} elements, not {gradient.size}")
        if self.compiled.graph.masks(self._result.name):
            gradient = np.where(self.read_logits(device) > 0, gradient.reshape(self.batch, -1), 0)
        stored = self._result.to_memory(gradient.reshape(self._result.shape))
        exponent = exponent_for(float(np.abs(gradient).max()), self.config.operand_width)
        self.write(device, tensor.name, quantise(stored, exponent, self.config.operand_width))
        device.set_exponents(tensor.number, exponent)

    # --- tensors ----------------------------------------------------------------------------------

    def read(self, device: Device, name: str) -> np.ndarray:
        """A tensor's mantissas."""
        return read_tensor(device, self.tensors[name])

    def write(self, device: Device, name: str, array: np.ndarray) -> None:
        """Set a tensor's mantissas."""
        write_tensor(device, self.tensors[name], array)

    def _tensor(self, layer, part):
        return self.tensors[layer_tensor(layer, part)]
