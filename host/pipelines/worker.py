"""A device of a pipeline at work on a batch: step after step, with messages from and to others between them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...spec.config import Config
from ...spec.numerics import operand_max
from ...spec.phases import GP, WARMUP
from ...spec.registers import Status
from ..compiler.compiler import ON_CHIP
from ..compiler.graph import Graph
from ..compiler.predictor_steps import GRADIENTS
from ..compiler.tensors import Tensor, layer_tensor
from ..compiler.values import Value
from ..devices.device import Device
from ..islands.tensor_access import read_tensor, write_tensor
from ..training.exchange import read_results, write_loss_gradients
from ..training.gradient_state import GradientState, gradient_state
from .device_program import DeviceProgram, Staged
from .shared_predictor import StatePart
from .stale import HeldExponents
from .steps import PipelineError, Step, What

__all__ = ["HEADER_BYTES", "Loss", "Memory", "Message", "Worker", "agreed_bytes"]

Loss = Callable[[int, list[np.ndarray]], list[np.ndarray]]
"""From the number of a micro-batch and the network's results to the gradients of its loss by each."""

HEADER_BYTES = 8
"""Of a message: the tensor's number and exponent, and the micro-batch."""


@dataclass(frozen=True)
class Message:
    """A tensor on its way to the stage that reads it.

    The predictor's gradient is of the micro-batch that :meth:`~.device_program.Staged.batch_end` says.
    """

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
    gradient_state: the device's copy of the predictor, if there is one
    done: steps of the batch that have been run
    saturated: gradients of the batch that a replica may have cut as it kept them apart, see :mod:`.replicas`
    """

    def __init__(self, staged: Staged, place: int, device: Device):
        self.staged, self.place, self.device = staged, place, device
        self.compiled: DeviceProgram = staged.devices[place]
        held = StatePart(staged.config, staged.source, self.compiled.slots[0], self.compiled.copies)
        self.gradient_state: GradientState = gradient_state(held)
        self.done = self.saturated = 0
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
        for program in filter(None, (compiled.program, compiled.calibrating, compiled.gp, compiled.alone)):
            device.write(program.address, program.words())
        regions = [plan.region(group) for group in ("state", ON_CHIP, "activations")]
        device.set_regions([(first, end) for first, end in regions if first < end])
        if compiled.input_bytes:
            device.set_ring(plan["inputs"].address, self.memory().entry_bytes, 1)
        self.gradient_state.install(device)

    def begin(self, loss: Loss, calibrate: bool = False, phase: int = WARMUP, alone: bool = False) -> None:
        """Get ready for a batch; inputs are in memory already."""
        self._program = self.compiled.calibrating if calibrate else self.compiled.program
        self._steps = self.compiled.calibrating_steps if calibrate else self.compiled.steps
        if phase == GP:
            assert self.compiled.gp is not None, "there is no source of gradients for GP"
            self._program, self._steps = self.compiled.gp, self.compiled.gp_steps
        if alone and not calibrate:
            assert self.compiled.alone is not None, "there is no program without staleness"
            self._program, self._steps = self.compiled.alone, self.compiled.alone_steps
        self._held = HeldExponents(self.device, () if calibrate else self.compiled.moved)
        self._calibrate, self._loss, self._phase, self.done, self.saturated = calibrate, loss, phase, 0, 0
        self._results: dict[int, list[np.ndarray]] = {}

    @property
    def next(self) -> Step | None:
        """The step that comes next; None at a batch's end."""
        return self._steps[self.done] if self.done < len(self._steps) else None

    @property
    def needs(self) -> set[tuple[str, int]]:
        """Tensors, each with its micro-batch, that must come before the next step."""
        step = self.next
        if step is None:
            return set()
        if step.what is What.UPDATE:
            return set() if self._calibrate else {*self.staged.exchange.received(step)}
        if step.micro_batch is None:
            replica = 0 if step.what is What.ADAM else step.replica
            writer, end = 0 if step.what is What.ADAM else step.stage + 1, self.staged.batch_end(replica)
            there = writer < self.staged.schedule.stages and self.staged.device_of(writer, end) != self.place
            return {(name, end) for name in GRADIENTS} if there else set()
        crossings = self.staged.sections.received(step.what, step.stage)
        return {(each.tensor, step.micro_batch) for each in crossings if self.staged.has_message(each)}

    def take(self, message: Message) -> None:
        """Put a message's tensor into memory, and set its exponent."""
        tensor = self.compiled.tensors(message.micro_batch)[message.tensor]
        write_tensor(self.device, tensor, message.mantissas)
        if tensor.number >= 0:  # else it has an exponent that devices share
            self.device.set_exponents(tensor.number, message.exponent)

    def run(self) -> tuple[list[Message], int]:
        """Run the next step; returns the messages that it sends, and the device's cycles."""
        step, before = self.next, self.device.counters(self._phase)["cycles"]
        assert step is not None, "the batch is over"
        self._held.before(step)
        sent = self._run(step)
        self._held.after(step)
        return sent, self.device.counters(self._phase)["cycles"] - before

    def cut(self, step: Step) -> int:
        """The number of parts kept apart until an update that may have been cut: an element is at the limit."""
        limit, found = operand_max(self.staged.config.operand_width), 0
        for name, micro_batch in self.staged.parts(step):
            mantissas = read_tensor(self.device, self.compiled.tensors(micro_batch)[name])
            found += int(np.abs(mantissas.astype(np.int64)).max()) >= limit
        return found

    @property
    def exponents(self) -> dict[int, int]:
        """Exponents, by number, that follow from the maxima that this device's micro-batches have."""
        return {number: self.device.exponents(number)[0] for number in self.compiled.followed}

    @property
    def scales(self) -> dict[str, tuple[int, int]]:
        """Scales of predictions, by the names of their tensors, of the layers that this device judges."""
        names = self.staged.exchange.judged(self.place)
        return {name: self.device.scale(self.compiled.slots[0][name].number) for name in names}

    def agree(self, largest: Mapping[int, int], scales: Mapping[str, tuple[int, int]]) -> None:
        """Set those exponents to the ``largest`` of the replicas, and the scales of the device's layers."""
        for number in self.compiled.followed:
            self.device.set_exponents(number, largest[number])
        for name in scales.keys() & {layer_tensor(layer, "scale") for layer in self.compiled.layers}:
            self.device.set_scale(self.compiled.slots[0][name].number, *scales[name])

    @property
    def shared(self) -> dict[str, int]:
        """Exponents of the predictor's tensors that this device has seen maxima of."""
        return {name: self._exponent(name) for name in self.compiled.tracked[self._calibrate]}

    def share(self, exponents: Mapping[str, int]) -> None:
        """Set exponents of the predictor's tensors."""
        for name, exponent in exponents.items():
            self.device.set_exponents(self.compiled.slots[0][name].number, exponent)

    def _run(self, step: Step) -> list[Message]:
        device, last = self.device, step.stage == self.staged.schedule.stages - 1
        if last and step.what in (What.BACKWARD, What.BACKWARD_INPUT):
            assert step.micro_batch is not None
            gradients = self._loss(step.micro_batch, self._results.pop(step.micro_batch))
            write_loss_gradients(self.memory(step.micro_batch), device, gradients)
        exchanged = [] if self._calibrate else self.staged.exchange.sent(step)
        held = [self._exponent(name) for name, _ in exchanged]  # the end of a batch changes them
        if step.what is What.UPDATE and not self._calibrate:
            self.saturated += self.cut(step)
        if self.done:
            device.resume()
        else:
            device.start(self._program, self._phase, 1, self._calibrate)
        status = device.wait()
        self.done += 1
        self._held.ran(step)
        if bool(status & Status.DONE) != (self.next is None):
            raise PipelineError(f"device {self.place} stopped at another place than after {step}")
        found = [replace(self._message(name, micro_batch, step.stage, True), exponent=exponent)
                 for (name, micro_batch), exponent in zip(exchanged, held, strict=True)]  # fmt: skip
        if step.micro_batch is None:
            end = self.staged.batch_end(step.replica)
            return found + [self._message(name, end, reader, True) for reader in self._learners(step)
                            for name in GRADIENTS]  # fmt: skip
        if last and step.what is What.FORWARD and self._phase != GP:
            self._results[step.micro_batch] = read_results(self.memory(step.micro_batch), device)
        sent = [each for each in self.staged.sections.sent(step.what, step.stage) if self.staged.has_message(each)]
        return found + [self._message(each.tensor, step.micro_batch, each.reader, each.backward) for each in sent]

    def _learners(self, step: Step) -> list[int]:
        """Stages on other devices that get the predictor's gradient after a step: the one before, at the end all."""
        if step.what is not What.LEARN or (step.replica and not step.stage):  # all have it from the first replica
            return []
        end = self.staged.batch_end(step.replica)
        readers = [step.stage - 1] if step.stage else range(self.staged.schedule.devices)
        return [stage for stage in readers if self.staged.device_of(stage, end) != self.place]

    def _exponent(self, name: str) -> int:
        number = self.compiled.slots[0][name].number
        return self.device.exponents(number)[0] if number >= 0 else 0

    def _message(self, name: str, micro_batch: int, reader: int, backward: bool) -> Message:
        tensor = self.compiled.tensors(micro_batch)[name]
        return Message(name, micro_batch, reader, backward, self._exponent(name), read_tensor(self.device, tensor))


def agreed_bytes(staged: Staged, place: int) -> int:
    """Bytes of what a device tells its partner at the end of a batch: exponents and scales."""
    return HEADER_BYTES * (len(staged.devices[place].followed) + len(staged.exchange.judged(place)))
