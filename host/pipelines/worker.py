"""A device of a pipeline at work on a batch: step after step, with messages from and to others between them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...spec.config import Config
from ...spec.phases import WARMUP
from ...spec.registers import Status
from ..compiler.graph import Graph
from ..compiler.tensors import Tensor
from ..compiler.values import Value
from ..devices.device import Device
from ..islands.tensor_access import read_tensor, write_tensor
from ..training.exchange import read_results, write_loss_gradients
from .device_program import DeviceProgram, Staged
from .steps import PipelineError, Step, What

__all__ = ["HEADER_BYTES", "Loss", "Memory", "Message", "Worker"]

Loss = Callable[[int, list[np.ndarray]], list[np.ndarray]]
"""From the number of a micro-batch and the network's results to the gradients of its loss by each."""

HEADER_BYTES = 8
"""Of a message: the tensor's number and exponent, and the micro-batch."""


@dataclass(frozen=True)
class Message:
    """A tensor on its way to the stage that reads it."""

    tensor: str
    micro_batch: int
    reader: int
    backward: bool
    exponent: int
    mantissas: np.ndarray

    @property
    def n_bytes(self) -> int:
        """Bytes that cross the link."""
        return HEADER_BYTES + self.mantissas.nbytes


@dataclass(frozen=True)
class Memory:
    """The memory of a micro-batch on a device, as :mod:`adagp.host.training.exchange` needs it."""

    config: Config
    graph: Graph
    tensors: Mapping[str, Tensor]
    entry_bytes: int
    micro_batches: int

    @property
    def values(self) -> dict[str, Value]:
        """The network's values by name."""
        return self.graph.values


class Worker:
    """One device of a pipeline.

    ``place`` is its number in the schedule. :meth:`begin` comes before a batch; then, for each step in turn,
    :meth:`take` with the messages that :attr:`needs` says, and :meth:`run`.

    Attributes
    ----------
    compiled: layers, memory and programs
    done: steps of the batch that have been run
    """

    def __init__(self, staged: Staged, place: int, device: Device):
        self.staged, self.place, self.device = staged, place, device
        self.compiled: DeviceProgram = staged.devices[place]
        self.done = 0
        self._steps: Sequence[Step] = ()

    def memory(self, micro_batch: int = 0) -> Memory:
        """Where a micro-batch's tensors lie."""
        several = self.staged.schedule.micro_batches
        tensors = self.compiled.tensors(micro_batch)
        return Memory(self.staged.config, self.staged.graph, tensors, several * self.compiled.input_bytes, several)

    def install(self) -> None:
        """Put the programs and settings on the device."""
        compiled, device = self.compiled, self.device
        plan = compiled.plan
        if plan.n_bytes > device.memory_size:
            raise PipelineError(
                f"device {self.place} of the pipeline needs {plan.n_bytes} bytes of memory, it has {device.memory_size}"
            )
        for program in (compiled.program, compiled.calibrating):
            device.write(program.address, program.words())
        regions = [plan.region(group) for group in ("state", "activations")]
        device.set_regions([(first, end) for first, end in regions if first < end])
        if compiled.input_bytes:
            device.set_ring(plan["inputs"].address, self.memory().entry_bytes, 1)

    def begin(self, loss: Loss, calibrate: bool = False) -> None:
        """Get ready for a batch; inputs are in memory already."""
        self._program = self.compiled.calibrating if calibrate else self.compiled.program
        self._steps = self.compiled.calibrating_steps if calibrate else self.compiled.steps
        self._calibrate, self._loss, self.done = calibrate, loss, 0
        self._results: dict[int, list[np.ndarray]] = {}

    @property
    def next(self) -> Step | None:
        """The step that comes next; None at a batch's end."""
        return self._steps[self.done] if self.done < len(self._steps) else None

    @property
    def needs(self) -> set[tuple[str, int]]:
        """Tensors, each with its micro-batch, that must come before the next step."""
        step = self.next
        if step is None or step.micro_batch is None:
            return set()
        crossings = self.staged.sections.received(step.what, step.stage)
        return {(each.tensor, step.micro_batch) for each in crossings if self.staged.has_message(each)}

    def take(self, message: Message) -> None:
        """Put a message's tensor into memory, and set its exponent."""
        tensor = self.compiled.tensors(message.micro_batch)[message.tensor]
        write_tensor(self.device, tensor, message.mantissas)
        self.device.set_exponents(tensor.number, message.exponent)

    def run(self) -> tuple[list[Message], int]:
        """Run the next step; returns the messages that it sends, and the device's cycles."""
        before = self.device.counters(WARMUP)["cycles"]
        return self._run(), self.device.counters(WARMUP)["cycles"] - before

    def _run(self) -> list[Message]:
        step, device = self.next, self.device
        assert step is not None, "the batch is over"
        last = step.stage == self.staged.schedule.stages - 1
        if last and step.what in (What.BACKWARD, What.BACKWARD_INPUT):
            assert step.micro_batch is not None
            gradients = self._loss(step.micro_batch, self._results.pop(step.micro_batch))
            write_loss_gradients(self.memory(step.micro_batch), device, gradients)
        if self.done:
            device.resume()
        else:
            device.start(self._program, WARMUP, 1, self._calibrate)
        status = device.wait()
        self.done += 1
        if bool(status & Status.DONE) != (self.next is None):
            raise PipelineError(f"device {self.place} stopped at another place than after {step}")
        if step.micro_batch is None:
            return []
        if last and step.what is What.FORWARD:
            self._results[step.micro_batch] = read_results(self.memory(step.micro_batch), device)
        sent = [each for each in self.staged.sections.sent(step.what, step.stage) if self.staged.has_message(each)]
        return [self._message(each.tensor, step.micro_batch, each.reader, each.backward) for each in sent]

    def _message(self, name: str, micro_batch: int, reader: int, backward: bool) -> Message:
        tensor = self.compiled.tensors(micro_batch)[name]
        exponent, _ = self.device.exponents(tensor.number)
        return Message(name, micro_batch, reader, backward, exponent, read_tensor(self.device, tensor))
