"""A network on the accelerator: its tensors by name, its weights in and out, its batches."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple

import numpy as np

from ...spec.config import Config
from ...spec.phases import EVALUATION
from ...spec.registers import Status
from ..compiler.compiler import Compiled, compile_network
from ..compiler.front_end import graph_of
from ..compiler.graph import Graph
from ..compiler.lowering import Kind, Layer
from ..compiler.micro_batches import micro_batch_size
from ..compiler.tensors import INPUT, Tensor, layer_tensor
from ..compiler.values import Input, inputs_of
from ..devices.device import Device, DeviceError
from ..islands.runtime import Islands, Moment
from ..islands.state import Hyper
from ..islands.tensor_access import read_tensor, write_tensor, zero_tensor
from ..program import Program
from .exchange import input_exponent, read_results, write_inputs, write_loss_gradients
from .gradient_state import GradientState, gradient_state
from .hyper_parameters import set_adam, set_sgd
from .layer_state import add_to, load_layer, statistics_of, weights_of
from .layer_weights import canonical_names, merged
from .loss import Loss, loss_and_gradients
from .programs import program_of

__all__ = ["Network"]


class Network:
    """A torch.nn.Module bound to the shapes of its arguments, a batch size and a configuration.

    A batch: :meth:`write_input`, :meth:`start`, :meth:`wait`; for each of its :attr:`passes` :meth:`read_results`, in
    training :meth:`write_loss` or :meth:`write_loss_gradient`, ``device.resume()``, :meth:`wait`.

    Parameters
    ----------
    module: the network; its parameters aren't kept (see :meth:`load_state`)
    inputs: its arguments (see :class:`Input`), or the shape of its only one, (C, H, W) or (features,)
    batch: images of a batch, always all of them
    input_max: largest magnitude an argument given by its shape may have; decides the exponent
    ring_entries: batches of input that memory has room for
    source: name of the source of gradients in phase GP (see settings); None: there is no such phase
    dataflow, graph: the operand that GEMMs keep in the array (see host/compiler/dataflow.py); the graph if made before
    micro_batches: parts of a batch with passes of their own; the loss is the mean of theirs
    predictor_every, gp_momentum: as of :class:`adagp.AdaGP`; see also :meth:`start`
    later: see :func:`adagp.host.compiler.compiler.compile_network`

    Attributes
    ----------
    compiled: layers, tensors, memory plan, program and gradient source
    gradient_state: the gradient source's state on a device
    islands: parts that the host computes, with their state
    moment: place in the run of the next batch of training, unless its start says another
    passes: forward passes of the batch that was begun, each of a micro-batch; a batch that calibrates has the first

    Raises
    ------
    LoweringError, MappingError, PlanError
        if the accelerator can't run the network
    """

    def __init__(
        self, module, inputs: Sequence[int] | Sequence[Input], batch: int, config: Config, *, input_max: float = 1.0,
        ring_entries: int = 1, source: str | None = None, dataflow: str = "free", graph: Graph | None = None,
        micro_batches: int = 1, predictor_every: int = 1, gp_momentum: str = "update", later: bool = True,
    ):  # fmt: skip
        if not isinstance(config, Config):
            raise TypeError(f"config is {config!r}, and must be a Config, such as adagp.spec.presets.preset makes")
        self.inputs, self.batch = inputs_of(inputs, input_max), batch
        self.config, self.ring_entries, self.passes = config, ring_entries, micro_batches
        size = micro_batch_size(batch, micro_batches)
        exponents = [input_exponent(each, config.operand_width) for each in self.inputs]
        graph = graph_of(module, self.inputs, size, config) if graph is None else graph
        self._input_exponents = dict(zip(graph.inputs, exponents, strict=True))
        self.compiled: Compiled = compile_network(
            graph, size, config, ring_entries, source, dataflow, micro_batches, predictor_every, gp_momentum, later
        )
        self.gradient_state: GradientState = gradient_state(self.compiled)
        self._names = canonical_names(module, graph)
        on_device = {name for layer in self.weighted for name in (*layer.parameters, *layer.buffers[:2])}
        self.islands = Islands(self.compiled, [name for name in self._names.values() if name not in on_device])
        self.moment = Moment()

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
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the first argument, without the batch."""
        return self.inputs[0].shape

    @property
    def n_outputs(self) -> int:
        """Numbers of the network's first result for an image."""
        return int(np.prod(self.compiled.graph.results[0].shape[1:]))

    @property
    def weighted(self) -> list[Layer]:
        """The layers with weights."""
        return [layer for layer in self.layers if layer.weighted]

    @property
    def trained(self) -> list[Layer]:
        """The layers whose weights are trained."""
        return [layer for layer in self.layers if layer.trains]

    @property
    def normed(self) -> list[Layer]:
        """The batch norms."""
        return [layer for layer in self.layers if layer.kind is Kind.NORM]

    @property
    def has_running_statistics(self) -> bool:
        """True if evaluation normalises by statistics of batches before, on the device or on the host."""
        return any(name.endswith("running_var") for name in self._names)

    # --- setting up -------------------------------------------------------------------------------

    def install(self, device: Device) -> None:
        """Put program and settings on the device; raises DeviceError if it isn't the one compiled for."""
        if device.config.config_hash != self.config.config_hash:
            raise DeviceError(f"the network is compiled for {self.config.name}, the device is {device.config.name}")
        plan = self.compiled.plan
        if plan.n_bytes > device.memory_size:
            raise DeviceError(f"the network needs {plan.n_bytes} bytes of memory, the device has {device.memory_size}")
        for program in filter(None, (self.program, self.compiled.calibrating, self.compiled.untaught)):
            device.write(program.address, program.words())
        regions = [plan.region(group) for group in ("state", "predictor", "activations")]
        device.set_regions([(first, end) for first, end in regions if first < end])
        device.set_ring(self.tensors[INPUT].address, self.compiled.entry_bytes, self.ring_entries)
        self.gradient_state.install(device)

    def load_state(self, device: Device, state: Mapping, seed: int = 0) -> None:
        """Install the network with the weights of a state dict (arrays or tensors by name) and zero momentum.

        ``seed`` decides the predictor's first weights, and what is drawn in starts without a moment. The first batch
        must be a calibrating one: the exponents of everything else aren't known yet.
        """
        self.install(device)
        for tensor in self.tensors.values():
            if tensor.number >= 0:
                device.set_exponents(tensor.number, 0)
        for name, exponent in self._input_exponents.items():
            device.set_exponents(self.tensors[name].number, exponent)
        for layer in self.weighted:
            load_layer(device, self.tensors, layer, state, self.config.operand_width)
        self.islands.state.load(state)
        self.gradient_state.load(device, seed)
        self.moment = Moment(seed)

    # --- state ------------------------------------------------------------------------------------

    def state_dict(self, device: Device) -> dict:
        """The master weights and the islands' state as a torch state dict (float64), by the module's names."""
        state = self.islands.state.state_dict()
        state |= merged((layer, weights_of(device, self.tensors, layer)) for layer in self.weighted)
        for layer in self.normed:
            state |= statistics_of(device, self.tensors, layer)
        return {name: state[canonical].clone() for name, canonical in self._names.items()}

    def snapshot(self, device: Device) -> dict[str, np.ndarray]:
        """Everything that later batches depend on, as arrays by name: weights, momentum, all exponents, the moment."""
        arrays = {name: self.read(device, name) for name in self._state_names()}
        current, following = zip(*(device.exponents(number) for number in self._numbers()), strict=True)
        persistent = [each is not None for each in following]
        arrays["exponents"] = np.array([current, persistent, [each or 0 for each in following]], np.int16)
        arrays["moment"] = np.array(astuple(self.moment), np.int64)
        return arrays | self.islands.state.snapshot() | self.gradient_state.snapshot(device)

    def restore(self, device: Device, arrays: Mapping[str, np.ndarray]) -> None:
        """Install the network with the state of a :meth:`snapshot`, bit for bit."""
        self.install(device)
        for layer in self.weighted:
            zero_tensor(device, self._tensor(layer, "weight_gradient"))
        for name in self._state_names():
            self.write(device, name, arrays[name])
        for number, (current, persistent, following) in zip(
            self._numbers(), arrays["exponents"].T.tolist(), strict=True
        ):
            device.set_exponents(number, current, following if persistent else None)
        self.islands.state.restore(arrays)
        self.gradient_state.restore(device, arrays)
        self.moment = Moment(*(int(place) for place in arrays.get("moment", ())))  # earlier versions kept none

    def weights_hash(self, device: Device) -> str:
        """SHA-256 of master weights, momentum, their exponents and the islands' state; equal after equal training."""
        digest = hashlib.sha256()
        for layer in self.weighted:
            add_to(digest, device, self.tensors, layer)
        self.islands.state.add_to(digest)
        return digest.hexdigest()

    def _state_names(self):
        return [layer_tensor(layer, part) for layer in self.weighted for part in layer.state]

    def _numbers(self):
        """Numbers of the tensors that have exponents."""
        scales = self.compiled.source.scales
        return sorted({t.number for name, t in self.tensors.items() if t.number >= 0 and name not in scales})

    # --- batches ----------------------------------------------------------------------------------

    def set_hyper(self, device: Device, learning_rate: float, momentum: float, weight_decay: float) -> None:
        """Set the parameters of SGD for the batches from now on."""
        set_sgd(device, learning_rate, momentum, weight_decay)
        self.islands.hyper = Hyper(learning_rate, momentum, weight_decay)

    def set_adam(self, device: Device, learning_rate: float) -> None:
        """Set the parameters of the predictor's Adam for the batches from now on."""
        set_adam(device, learning_rate)

    def write_input(self, device: Device, x: np.ndarray | Sequence[np.ndarray], entry: int = 0) -> None:
        """Quantise a batch [N, *shape] of the argument, or one of each of several, into an entry of the input ring.

        Tensors of PyTorch will do too, if they are on the CPU and need no gradient.
        Raises ValueError for another shape, an entry that isn't there, or values that are too large.
        """
        if not 0 <= entry < self.ring_entries:
            raise ValueError(f"the input ring has {self.ring_entries} entries, there is no number {entry}")
        arrays = [x] if hasattr(x, "shape") else x
        write_inputs(self.compiled, device, self.inputs, [np.asarray(array) for array in arrays], entry)

    def start(
        self, device: Device, phase: int | None, *, batches: int = 1, calibrate: bool = False,
        scheduled: Sequence[int] = (), moment: Moment | None = None, learns: bool = True,
    ) -> None:  # fmt: skip
        """Begin batches in a phase (0 warm-up, 1 BP, 2 GP, 3 evaluation; None: as scheduled), at entry 0 of the ring.

        Islands need to know the ``scheduled`` phases. The run's ``moment`` decides what they and dropout draw; without
        one, batches of training follow each other. Only these change state. Without ``learns`` the predictor doesn't
        learn, which takes a network with ``predictor_every`` above 1. Raises ValueError without one, and for a batch
        that can't calibrate: any of GP, and with a predictor those of BP, in which no command sees all of its weights.
        """
        program = program_of(self.compiled, calibrate, learns)
        if calibrate and phase is not None and not self.compiled.source.calibrating & 1 << phase:
            raise ValueError(f"the batch that calibrates is one of warm-up, not of phase {phase}")
        if self.ring_entries > 1:
            device.set_ring_index(0)
        trained, moment = 0 if phase == EVALUATION else batches, moment or self.moment
        self.begin(device, scheduled if phase is None else [phase] * batches, moment, calibrate=calibrate)
        self.moment, self.passes = moment.after(trained), 1 if calibrate else self.compiled.micro_batches
        self.islands.state.count([name for layer in self.normed for name in layer.buffers[2:]], trained * self.passes)
        device.start(program, phase, batches, calibrate)

    def begin(self, device: Device, phases: Sequence[int], moment: Moment, whole=True, calibrate=False) -> None:
        """Get islands ready as :meth:`Islands.begin` does, and let the device's dropout draw by the moment."""
        self.islands.begin(phases, moment, whole, calibrate)
        if any(layer.drop for layer in self.layers):
            moment.begin(device)

    def wait(self, device: Device) -> Status:
        """Wait until the program needs the loss's gradient or has ended, and compute islands meanwhile."""
        return self.islands.wait(device)

    def read_results(self, device: Device) -> list[np.ndarray]:
        """The network's results as torch's module gives them, float64."""
        return read_results(self.compiled, device)

    def read_logits(self, device: Device) -> np.ndarray:
        """The network's first result, flattened beyond the batch [N, ...], float64."""
        return self.read_results(device)[0].reshape(self.batch // self.compiled.micro_batches, -1)

    def write_loss_gradient(self, device: Device, *gradients: np.ndarray) -> None:
        """Quantise the gradient of a micro-batch's mean loss by each result at an exponent of its own, and set that."""
        write_loss_gradients(self.compiled, device, [gradient / self.passes for gradient in gradients])

    def write_loss(self, device: Device, loss: Loss, *targets) -> float:
        """Give the device the gradients of a loss, which is called with the results and ``targets``; returns it."""
        value, gradients = loss_and_gradients(loss, self.read_results(device), *targets)
        self.write_loss_gradient(device, *gradients)
        return value

    # --- tensors ----------------------------------------------------------------------------------

    def read(self, device: Device, name: str) -> np.ndarray:
        """A tensor's mantissas."""
        return read_tensor(device, self.tensors[name])

    def write(self, device: Device, name: str, array: np.ndarray) -> None:
        """Set a tensor's mantissas."""
        write_tensor(device, self.tensors[name], array)

    def _tensor(self, layer, part):
        return self.tensors[layer_tensor(layer, part)]
