"""Replicas of a network's stages on other devices, as Chimera has them: equal weights from the sum of all gradients.

The first replica adds up its micro-batches' gradients as one device does. The second one keeps those of its own apart.
At a batch's end it gets the first one's sum and adds its own to it, one after the other, and sends the result back. So
both update with the gradient of one device, bit for bit, and sums have the maxima that one device sees. Afterwards the
larger exponent of both replicas holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...spec.commands import CMode, Opcode
from ..compiler.graph import Graph
from ..compiler.ir import Step as Command
from ..compiler.lowering import Kind, Layer
from ..compiler.micro_batches import sum_of, sum_step
from ..compiler.tensors import Tensor, layer_tensor
from .steps import Schedule, Step, What

__all__ = ["Exchange", "Places", "followed", "kept_apart", "largest_of", "parts_of"]


def parts_of(graph: Graph, declared: Iterable[Tensor]) -> list[Tensor]:
    """The tensors in which a replica keeps the gradients of its micro-batches apart."""
    tensors = {tensor.name: tensor for tensor in declared}
    return [
        replace(tensors[layer_tensor(layer, "weight_gradient")], name=layer_tensor(layer, "gradient_part"), number=-1)
        for layer in graph.layers if layer.trains and layer.kind is Kind.GEMM
    ]  # fmt: skip


def kept_apart(graph: Graph, commands: Iterable[Command]) -> tuple[list[Command], list[Command]]:
    """A later micro-batch's commands that leave the sums of gradients alone, and the commands that add to them."""
    others: list[Command] = []
    sums: list[Command] = []
    for command in commands:
        layer = graph.layers[command.layer]
        total, part = layer_tensor(layer, "weight_gradient"), layer_tensor(layer, "gradient_part")
        if command.operands.get("out", "").endswith(".gradient_sum"):
            sums.append(command)
        elif command.opcode == Opcode.BACKWARD_WEIGHT and command.operands["out"] == total:
            operands = {name: tensor for name, tensor in command.operands.items() if name != "c"} | {"out": part}
            fields = command.fields | {"c_mode": int(CMode.NONE), "track": 0}
            offsets = {name: offset for name, offset in command.offsets.items() if name != "c"}
            numbers = command.numbers | {"out": total}
            others.append(replace(command, operands=operands, fields=fields, offsets=offsets, numbers=numbers))
            added = sum_step(command.layer, layer, total, part, first=False)
            sums.append(replace(added, numbers={"c": total}, micro_batch=command.micro_batch))
        else:
            others.append(command)
    return others, sums


def followed(commands: Iterable[Command], tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    """The numbers of the tensors whose exponents follow from the maxima of a device's micro-batches."""
    names = {command.numbers.get("out", command.operands["out"]) for command in commands if command.fields.get("track")}
    return tuple(sorted({tensors[name].number for name in names}))


def largest_of(seen: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """The largest exponent of each tensor that any device has seen maxima of, by number."""
    found: dict[int, int] = {}
    for each in seen:
        for number, exponent in each.items():
            found[number] = max(found.get(number, exponent), exponent)
    return found


@dataclass(frozen=True)
class Places:
    """The places of micro-batches in a device's memory.

    Parameters
    ----------
    schedule: the pipeline's
    held: micro-batches of a stage whose activations are there at once
    both: tensors that the stages of both replicas use there
    apart: gradients that are kept until a batch's end
    """

    schedule: Schedule
    held: int
    both: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()

    @property
    def slots(self) -> int:
        """Micro-batches after which their places come again."""
        return self.held if self.schedule.replicas == 1 else self.schedule.micro_batches

    def copies(self, name: str) -> int:
        """The places that a tensor has."""
        if name in self.apart:
            return len(self.schedule.of_replica(1))
        return self.held * (self.schedule.replicas if name in self.both else 1)

    def of(self, name: str, micro_batch: int) -> int:
        """The place of a micro-batch's tensor."""
        replica = self.schedule.replica_of(micro_batch)
        if name in self.apart:
            return max(0, micro_batch - self.schedule.of_replica(1).start)
        return micro_batch % self.held + self.held * replica * (name in self.both)


class Exchange:
    """Sums of gradients on their way between the replicas of a stage, each a tensor with the micro-batch it is sent as.

    The first replica sends them after its last backward pass, the second one after its update.
    """

    def __init__(self, schedule: Schedule, layers: Sequence[Layer], stage_of: Mapping[str, int]):
        self._schedule = schedule
        self._names: dict[int, list[str]] = {}
        for layer in layers:
            if layer.trains:
                self._names.setdefault(stage_of[layer.name], []).append(sum_of(layer))

    def received(self, step: Step) -> list[tuple[str, int]]:
        """The sums that a replica needs for a step."""
        return self._sums(step.stage, step.replica) if step.what is What.UPDATE else []

    def sent(self, step: Step) -> list[tuple[str, int]]:
        """The sums that the other replica needs from a step."""
        if self._schedule.replicas == 1:
            return []
        if step.what is What.UPDATE and step.replica:
            return self._sums(step.stage, 0)
        last = self._schedule.of_replica(0)[-1]
        if step.what is What.BACKWARD and step.micro_batch == last:
            return self._sums(step.stage, 1)
        return []

    def other(self, replica: int) -> int:
        """A micro-batch of the other replica."""
        return self._schedule.of_replica(1 - replica).start

    def names(self, stage: int) -> list[str]:
        """The sums of a stage; none without replicas."""
        return self._names.get(stage, []) if self._schedule.replicas > 1 else []

    def _sums(self, stage: int, replica: int) -> list[tuple[str, int]]:
        return [(name, self._schedule.of_replica(replica)[-1]) for name in self.names(stage)]
