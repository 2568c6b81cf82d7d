"""A network on several devices as a pipeline: weights in and out, and batches."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...spec.config import Config
from ...spec.phases import WARMUP
from ..compiler.front_end import graph_of
from ..compiler.lowering import Kind
from ..compiler.micro_batches import micro_batch_size
from ..compiler.values import Input, inputs_of
from ..devices.device import Device
from ..islands.state import IslandState
from ..training.exchange import input_exponent, write_inputs
from ..training.hyper_parameters import set_sgd
from ..training.layer_state import add_to, load_layer, statistics_of, weights_of
from ..training.layer_weights import canonical_names, merged
from .device_program import Staged
from .schedules import build
from .steps import PipelineError, Step
from .worker import Loss, Message, Worker

__all__ = ["Link", "Ran", "StagedNetwork"]


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


class StagedNetwork:
    """A torch.nn.Module cut into stages for several devices, which train it as one device would.

    The bits are those of ``Network(..., micro_batches=...)`` on one device.

    Parameters
    ----------
    module, inputs, batch, config, input_max: as of :class:`~adagp.host.training.network.Network`
    devices: one accelerator for each device of the schedule, with the same configuration
    schedule, micro_batches: a name of :data:`~adagp.host.pipelines.schedules.SCHEDULES`, and the parts of a batch
    cut: names of the layers that stages after the first begin with; None: balanced by expected cycles
    chunks: stages on each device of the schedule ``interleaved``
    link: the time of messages

    Attributes
    ----------
    staged: stages and programs
    workers: the devices
    ran: steps of the last batch, in the order in which they were run
    sent_bytes: of the last batch's messages
    """

    def __init__(
        self, module, inputs: Sequence[int] | Sequence[Input], batch: int, config: Config, devices: Sequence[Device],
        schedule: str = "1f1b", micro_batches: int = 4, *, cut: Sequence[str] | None = None, chunks: int = 2,
        link: Link | None = None, input_max: float = 1.0,
    ):  # fmt: skip
        for place, device in enumerate(devices):
            if device.config.config_hash != config.config_hash:
                raise PipelineError(f"device {place} is {device.config.name}, the network is for {config.name}")
        self.inputs, self.batch, self.link = inputs_of(inputs, input_max), batch, link or Link()
        plan = build(schedule, len(devices), micro_batches, chunks=chunks)
        size = micro_batch_size(batch, micro_batches)
        graph = graph_of(module, self.inputs, size, config)
        self.staged = Staged(graph, size, config, plan, cut)
        self._names = canonical_names(module, graph)
        known = {name for layer in graph.layers if layer.weighted for name in (*layer.parameters, *layer.buffers[:2])}
        self._host_state = IslandState((), [name for name in self._names.values() if name not in known])
        self.workers = [Worker(self.staged, place, device) for place, device in enumerate(devices)]
        self.ran: list[Ran] = []
        self.sent_bytes = 0

    def load_state(self, state: Mapping) -> None:
        """Install the network with the weights of a state dict and zero momentum; the next batch must calibrate."""
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
        self._host_state.load(state)

    def set_hyper(self, learning_rate: float, momentum: float, weight_decay: float) -> None:
        """Set the parameters of SGD for the batches from now on."""
        for worker in self.workers:
            set_sgd(worker.device, learning_rate, momentum, weight_decay)

    def state_dict(self) -> dict:
        """The weights and running statistics of all stages as a torch state dict (float64), by the module's names."""
        weighted = [(worker, layer) for worker in self.workers for layer in worker.compiled.layers if layer.weighted]
        found = self._host_state.state_dict()
        found |= merged((layer, weights_of(one.device, one.compiled.slots[0], layer)) for one, layer in weighted)
        for worker, layer in weighted:
            if layer.kind is Kind.NORM:
                found |= statistics_of(worker.device, worker.compiled.slots[0], layer)
        return {name: found[canonical].clone() for name, canonical in self._names.items()}

    def weights_hash(self) -> str:
        """SHA-256 as one device has it; equal after equal training."""
        digest = hashlib.sha256()
        owners = {layer.name: worker for worker in self.workers for layer in worker.compiled.layers}
        for layer in self.staged.graph.layers:
            if layer.weighted:
                worker = owners[layer.name]
                add_to(digest, worker.device, worker.compiled.slots[0], layer)
        self._host_state.add_to(digest)
        return digest.hexdigest()

    def train(self, x: np.ndarray, loss: Loss, *, calibrate: bool = False) -> None:
        """Train a batch. Gradients are those of the mean loss of a micro-batch; the batch's loss is their mean.

        A batch that calibrates has the first micro-batch alone.
        """
        passes = 1 if calibrate else self.staged.schedule.micro_batches

        def share(micro_batch: int, results: list[np.ndarray]) -> list[np.ndarray]:
            return [gradient / passes for gradient in loss(micro_batch, results)]

        for worker in self.workers:
            if worker.compiled.input_bytes:
                write_inputs(worker.memory(), worker.device, self.inputs, [x], 0)
            worker.begin(share, calibrate)
        counted = [name for layer in self.staged.graph.layers if layer.kind is Kind.NORM for name in layer.buffers[2:]]
        self._host_state.count(counted, passes)
        self._run()

    def _run(self) -> None:
        """Let each device take its steps in order, each as soon as its messages are there."""
        self.ran, self.sent_bytes = [], 0
        arrived: list[dict[tuple[str, int], tuple[Message, float]]] = [{} for _ in self.workers]
        free = [0.0] * len(self.workers)
        while any(worker.next for worker in self.workers):
            before = len(self.ran)
            for place, worker in enumerate(self.workers):
                while (step := worker.next) and worker.needs <= set(arrived[place]):
                    messages = [arrived[place].pop(need) for need in worker.needs]
                    for message, _ in messages:
                        worker.take(message)
                    begin = max([free[place], *(at for _, at in messages)])
                    counted = worker.device.counters(WARMUP)["cycles"]
                    sent = worker.run()
                    free[place] = begin + worker.device.counters(WARMUP)["cycles"] - counted
                    self.ran.append(Ran(place, step, begin, free[place]))
                    for message in sent:
                        self.sent_bytes += message.n_bytes
                        to = self.staged.device_of(message.reader)
                        at = free[place] + self.link.cycles(message.n_bytes)
                        arrived[to][message.tensor, message.micro_batch] = message, at
            if len(self.ran) == before:
                heads = "; ".join(f"device {w.place} at {w.next}" for w in self.workers if w.next)
                raise PipelineError(f"the devices wait for each other: {heads}")

    @property
    def cycles(self) -> float:
        """Cycles of the last batch, from its first step to its last."""
        return max((ran.end for ran in self.ran), default=0.0)
