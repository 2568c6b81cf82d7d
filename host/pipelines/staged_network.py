"""A network on several devices as a pipeline: weights in and out, and batches."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...spec.config import Config
from ...spec.phases import GP, WARMUP
from ..compiler.front_end import graph_of
from ..compiler.lowering import Kind
from ..compiler.micro_batches import micro_batch_size
from ..compiler.values import Input, inputs_of
from ..devices.device import Device
from ..islands.state import IslandState
from ..training.exchange import input_exponent, write_inputs
from ..training.hyper_parameters import set_adam, set_sgd
from ..training.layer_state import load_layer
from ..training.layer_weights import canonical_names, merged
from .device_program import Staged
from .replicas import largest_of
from .schedules import CHUNKS, build
from .shared_predictor import largest
from .stage_weights import bits_of, states_of, united
from .steps import PipelineError, Step, What
from .worker import HEADER_BYTES, Loss, Message, Worker, agreed_bytes

__all__ = ["Link", "Pipelined", "Ran", "StagedNetwork", "staged_of"]


@dataclass(frozen=True)
class Link:
    """The way from one device to another: a message takes ``latency`` cycles, and some for its bytes."""

    latency: float = 0.0
    bytes_per_cycle: float = float("inf")

    def __post_init__(self):
        if not (self.latency >= 0 and self.bytes_per_cycle > 0):
            raise PipelineError(
                f"latency = {self.latency} must be at least 0, bytes_per_cycle = {self.bytes_per_cycle} above 0"
            )

    def cycles(self, n_bytes: int) -> float:
        """Cycles from the end of a step until another device has its message."""
        return self.latency + n_bytes / self.bytes_per_cycle


@dataclass(frozen=True)
class Ran:
    """A step that a device has run, with its cycles of the pipeline's clock."""

    device: int
    step: Step
    begin: float
    end: float


def staged_of(
    module, inputs: Sequence[Input], batch: int, config: Config, size: int, schedule: str, micro_batches: int, *,
    cut: Sequence[str] | None, chunks: int, source: str | None, hybrid: bool = False,
) -> Staged:  # fmt: skip
    """The network cut into stages, without any device; parameters are those of :class:`Pipelined`."""
    plan = build(schedule, size, micro_batches, chunks=chunks)
    images = micro_batch_size(batch, micro_batches)
    gp = build(schedule, size, micro_batches, (GP,), chunks) if source else None
    return Staged(graph_of(module, inputs, images, config), images, config, plan, cut, source, gp, hybrid)


class Pipelined:
    """A torch.nn.Module cut into stages for several devices, some of which this process has.

    The bits are those of ``Network(..., micro_batches=...)`` on one device. With stale weights each micro-batch has its
    own update; then they are those of one device that trains micro-batches as batches, one after the other, and whose
    forward passes have older weights.

    Parameters
    ----------
    module, inputs, batch, config, input_max: as of :class:`~adagp.host.training.network.Network`
    devices: accelerators with that configuration, by their place in the schedule
    size: the number of all devices of the schedule
    schedule, micro_batches: a name of :data:`~adagp.host.pipelines.schedules.SCHEDULES`, and the parts of a batch
    cut: names of the layers that stages after the first begin with; None: balanced by expected cycles
    chunks: stages on each device of the schedule ``interleaved``
    link: the time of messages
    source: ``predicted`` for batches of phase GP, in which a predictor makes the gradients; None: there are none
    hybrid: with stale weights, batches may be trained without staleness too

    Attributes
    ----------
    staged: stages and programs
    workers: this process' devices
    ran: steps of the last batch, in the order in which they were run
    sent_bytes: of the last batch's messages
    """

    def __init__(
        self, module, inputs: Sequence[int] | Sequence[Input], batch: int, config: Config,
        devices: Mapping[int, Device], size: int, schedule: str = "1f1b", micro_batches: int = 4, *,
        cut: Sequence[str] | None = None, chunks: int = CHUNKS, link: Link | None = None, input_max: float = 1.0,
        source: str | None = None, hybrid: bool = False,
    ):  # fmt: skip
        for place, device in devices.items():
            if device.config.config_hash != config.config_hash:
                raise PipelineError(f"device {place} is {device.config.name}, the network is for {config.name}")
        self.inputs, self.batch, self.link = inputs_of(inputs, input_max), batch, link or Link()
        self.staged = staged_of(
            module, self.inputs, batch, config, size, schedule, micro_batches, cut=cut, chunks=chunks, source=source,
            hybrid=hybrid,
        )  # fmt: skip
        graph = self.staged.graph
        self._names = canonical_names(module, graph)
        known = {name for layer in graph.layers if layer.weighted for name in (*layer.parameters, *layer.buffers[:2])}
        self._host_state = IslandState((), [name for name in self._names.values() if name not in known])
        self.workers = [Worker(self.staged, place, device) for place, device in devices.items()]
        self.ran: list[Ran] = []
        self.sent_bytes = 0

    def load_state(self, state: Mapping, seed: int = 0) -> None:
        """Install the network with the weights of a state dict and zero momentum; the next batch must calibrate.

        ``seed`` decides the predictor's first weights.
        """
        width = self.staged.config.operand_width
        exponents = dict(zip(self.staged.graph.inputs, (input_exponent(e, width) for e in self.inputs), strict=True))
        for worker in self.workers:
            worker.install()
            for slot in worker.compiled.slots:
                for tensor in slot.values():
                    if tensor.number >= 0:
                        worker.device.set_exponents(tensor.number, exponents.get(tensor.name, 0))
            for layer in worker.compiled.layers:
                if layer.weighted:
                    load_layer(worker.device, worker.compiled.slots[0], layer, state, width)
            worker.gradient_state.load(worker.device, seed)
        self._host_state.load(state)

    def set_hyper(self, learning_rate: float, momentum: float, weight_decay: float) -> None:
        """Set the parameters of SGD for the batches from now on."""
        for worker in self.workers:
            set_sgd(worker.device, learning_rate, momentum, weight_decay)

    def set_adam(self, learning_rate: float) -> None:
        """Set the parameters of the predictor's Adam for the batches from now on."""
        for worker in self.workers:
            set_adam(worker.device, learning_rate)

    def _begin(self, x: np.ndarray, loss: Loss, calibrate: bool, phase: int, alone: bool) -> None:
        """Write the input, and get the devices ready for a batch; raises PipelineError for a phase that it can't be."""
        if phase != WARMUP and (calibrate or not self.staged.gp):
            raise PipelineError(f"phase = {phase} needs a source of gradients, and a batch before that calibrates")
        if alone and not self.staged.alone:
            raise PipelineError("alone = True needs a hybrid pipeline with stale weights")
        schedule = self.staged.schedule
        passes = 1 if calibrate else schedule.micro_batches
        summed = 1 if schedule.eager else passes

        def share(micro_batch: int, results: list[np.ndarray]) -> list[np.ndarray]:
            return [gradient / summed for gradient in loss(0 if calibrate else micro_batch, results)]

        if calibrate:  # each replica has the first micro-batch
            x = np.concatenate([x[: len(x) // schedule.replicas]] * schedule.replicas)
        for worker in self.workers:
            if worker.compiled.input_bytes:
                write_inputs(worker.memory(), worker.device, self.inputs, [x], 0)
            worker.begin(share, calibrate, phase, alone)
        counted = [name for layer in self.staged.graph.layers if layer.kind is Kind.NORM for name in layer.buffers[2:]]
        self._host_state.count(counted, passes)
        self.ran, self.sent_bytes = [], 0

    def _states(self) -> dict[str, dict[str, torch.Tensor]]:
        """The parts of a state dict that this process has, by layer."""
        return united(map(states_of, self.workers))

    def _bits(self) -> dict[str, bytes]:
        """The weights, momenta and exponents that this process has, by layer; raises PipelineError."""
        return united(map(bits_of, self.workers), alike=True)

    def _merged(self, parts: Mapping[str, dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """A state dict of all layers' parts."""
        found = self._host_state.state_dict()
        found |= merged((layer, parts[layer.name]) for layer in self.staged.graph.layers if layer.weighted)
        return {name: found[canonical].clone() for name, canonical in self._names.items()}

    def _hash(self, bits: Mapping[str, bytes]) -> str:
        """The hash of all layers' bits, as one device has it."""
        digest = hashlib.sha256()
        for layer in self.staged.graph.layers:
            digest.update(bits[layer.name] if layer.weighted else b"")
        self._host_state.add_to(digest)
        return digest.hexdigest()

    @property
    def clock(self) -> float:
        """Cycles after which all devices of this process may begin the next batch."""
        return self.cycles

    @property
    def cycles(self) -> float:
        """Cycles of the last batch, from its first step to this process' last."""
        return max((ran.end for ran in self.ran), default=0.0)


class StagedNetwork(Pipelined):
    """All devices of a pipeline in one process, which lets each take its steps as soon as their messages are there."""

    def __init__(self, module, inputs, batch: int, config: Config, devices: Sequence[Device], *args, **options):
        super().__init__(module, inputs, batch, config, dict(enumerate(devices)), len(devices), *args, **options)
        self._free = [0.0] * len(self.workers)

    @property
    def clock(self) -> float:
        return max(self._free)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The weights and running statistics of all stages as a torch state dict (float64), by the module's names."""
        return self._merged(self._states())

    def weights_hash(self) -> str:
        """SHA-256 as one device has it; equal after equal training."""
        return self._hash(self._bits())

    def train(
        self, x: np.ndarray, loss: Loss, *, calibrate: bool = False, phase: int = WARMUP, follows: bool = False,
        alone: bool = False,
    ) -> None:  # fmt: skip
        """Train a batch. Gradients are those of the mean loss of a micro-batch; the batch's loss is their mean.

        A batch that calibrates has the first micro-batch alone. One of phase GP never calls ``loss``. The clocks begin
        at 0, or go on from the batch before that it ``follows``: each device begins as soon as it is free. ``alone``:
        in a hybrid, each micro-batch passes all stages both ways before the next, so no weights are stale.
        """
        self._begin(x, loss, calibrate, phase, alone)
        arrived: list[dict[tuple[str, int], tuple[Message, float]]] = [{} for _ in self.workers]
        free = self._free = self._free if follows else [0.0] * len(self.workers)
        shared: dict[str, int] = {}
        while any(worker.next for worker in self.workers):
            before = len(self.ran)
            for place, worker in enumerate(self.workers):
                while (step := worker.next) and worker.needs <= set(arrived[place]):
                    messages = [arrived[place].pop(need) for need in worker.needs]
                    for message, _ in messages:
                        worker.take(message)
                    begin = max([free[place], *(at for _, at in messages)])
                    sees = calibrate and step.what in (What.FORWARD, What.LEARN)  # each layer finds them anew
                    worker.share(shared if sees else {})
                    sent, cycles = worker.run()
                    shared |= worker.shared if sees else {}
                    free[place] = begin + cycles
                    self.ran.append(Ran(place, step, begin, free[place]))
                    for message in sent:
                        self.sent_bytes += message.n_bytes
                        there = arrived[self.staged.device_of(message.reader, message.micro_batch)]
                        at = free[place] + self.link.cycles(message.n_bytes)
                        there[message.tensor, message.micro_batch] = message, at
            if len(self.ran) == before:
                heads = "; ".join(f"device {w.place} at {w.next}" for w in self.workers if w.next)
                raise PipelineError(f"the devices wait for each other: {heads}")
        if self.staged.gp and phase != GP:
            self._agree()
        if self.staged.schedule.replicas > 1:
            self._agree_as_replicas()

    def _agree(self) -> None:
        """Make exponents equal that all layers share, as one device has them from the maxima of all layers.

        Then the next batch may begin.
        """
        found = largest([worker.shared for worker in self.workers])
        for worker in self.workers:
            worker.share(found)
        if len(self.workers) > 1:
            n_bytes = HEADER_BYTES * len(found)
            self.sent_bytes += n_bytes * len(self.workers) * (len(self.workers) - 1)
            self._free = [max(self._free) + self.link.cycles(n_bytes)] * len(self.workers)

    def _agree_as_replicas(self) -> None:
        """Give replicas the larger of their exponents, as one device has them; then both may begin the next batch."""
        found, free = largest_of([worker.exponents for worker in self.workers]), list(self._free)
        scales = {name: scale for worker in self.workers for name, scale in worker.scales.items()}
        for worker in self.workers:
            worker.agree(found, scales)
            n_bytes = agreed_bytes(self.staged, worker.place)
            self.sent_bytes += n_bytes
            partner = self.staged.schedule.partner(worker.place)
            self._free[worker.place] = max(free[worker.place], free[partner]) + self.link.cycles(n_bytes)
