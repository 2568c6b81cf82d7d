"""Replicas of a network's stages on other devices, as Chimera has them: equal weights from the sum of all gradients.

The first replica adds up its micro-batches' gradients as one device does. The second one keeps those of its own apart.
At a batch's end it gets the first one's sum and adds its own to it, one after the other, and sends the result back. So
both update with the gradient of one device, bit for bit, and sums have the maxima that one device sees. Afterwards the
larger exponent of both replicas holds.

The predictor's input is such a sum too. It is small, so in GP both replicas get all parts, and both add them up,
predict and update: nobody waits for the other's sum. In BP the first replica alone judges predictions and learns, and
tells the other one the scale of the next ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...spec.commands import CMode, Opcode
from ...spec.phases import GP
from ..compiler.graph import Graph
from ..compiler.ir import Step as Command
from ..compiler.lowering import Kind, Layer
from ..compiler.micro_batches import sum_of, sum_step
from ..compiler.tensors import Tensor, layer_tensor, predictor_tensor
from ..compiler.window_sums import SUMS
from .steps import Schedule, Step, What

__all__ = ["Exchange", "Places", "followed", "is_mean", "is_part", "kept_apart", "largest_of", "parts_of", "unjudged"]

_GRADIENT, _MEAN = "gradient_part", "reorganised_part"
"""Last parts of the names of tensors in which a micro-batch's gradient, or part of the predictor's input, is apart."""


def is_part(name: str) -> bool:
    """True for a tensor in which something of a single micro-batch is kept apart."""
    return name.endswith((f".{_GRADIENT}", f".{_MEAN}"))


def is_mean(name: str) -> bool:
    """True for the predictor's input of a layer, or a micro-batch's part of it."""
    return name.endswith((".reorganised", f".{_MEAN}"))


def parts_of(graph: Graph, declared: Iterable[Tensor]) -> list[Tensor]:
    """The tensors in which a replica keeps the sums of its micro-batches apart."""
    tensors = {tensor.name: tensor for tensor in declared}
    wholes = {_GRADIENT: "weight_gradient", _MEAN: "reorganised"}
    return [
        replace(tensors[layer_tensor(layer, whole)], name=layer_tensor(layer, part), number=-1)
        for layer in graph.layers for part, whole in wholes.items()
        if layer.trains and (layer.kind is Kind.GEMM or part == _MEAN) and layer_tensor(layer, whole) in tensors
    ]  # fmt: skip


def kept_apart(graph: Graph, commands: Iterable[Command]) -> tuple[list[Command], list[Command]]:
    """A later micro-batch's commands that leave sums over micro-batches alone, and the commands that add to them."""
    others: list[Command] = []
    sums: list[Command] = []
    for command in commands:
        layer, out = graph.layers[command.layer], command.operands.get("out", "")
        total, mean = layer_tensor(layer, "weight_gradient"), layer_tensor(layer, "reorganised")
        if out.endswith(".gradient_sum"):
            sums.append(command)
        elif command.opcode == Opcode.BACKWARD_WEIGHT and out == total:
            others.append(_apart(command, layer_tensor(layer, _GRADIENT), total))
            added = sum_step(command.layer, layer, total, layer_tensor(layer, _GRADIENT), first=False)
            sums.append(replace(added, numbers={"c": total}, micro_batch=command.micro_batch))
        elif out == mean:
            others.append(_apart(command, layer_tensor(layer, _MEAN), command.numbers["out"]))
            if (added := _mean_step(command, layer)) not in sums:  # filters may be cut into several commands
                sums.append(added)
        else:
            others.append(command)
    return others, sums


def _apart(command: Command, part: str, number: str) -> Command:
    """The command with the result ``part``, at the exponent of ``number``, to which nothing is added."""
    operands = {name: tensor for name, tensor in command.operands.items() if name != "c"} | {"out": part}
    offsets = {name: offset for name, offset in command.offsets.items() if name != "c"}
    numbers = {name: tensor for name, tensor in command.numbers.items() if name != "c"} | {"out": number}
    fields = command.fields | {"c_mode": int(CMode.NONE), "track": 0}
    return replace(command, operands=operands, fields=fields, offsets=offsets, numbers=numbers)


def _mean_step(command: Command, layer: Layer) -> Command:
    """A micro-batch's part of a layer's reorganised output is added to the sum, which counts as in ``command``."""
    total, part = layer_tensor(layer, "reorganised"), layer_tensor(layer, _MEAN)
    added = sum_step(command.layer, layer, total, part, first=False)
    return replace(
        added, phases=command.phases, fields=added.fields | {"track": command.fields.get("track", 0)},
        shape={**(added.shape or {}), **dict.fromkeys(("h", "oh"), layer.q), **dict.fromkeys(("c", "q"), SUMS)},
        numbers=dict.fromkeys(added.operands, predictor_tensor("reorganised")), micro_batch=command.micro_batch,
    )  # fmt: skip


def unjudged(commands: Iterable[Command]) -> list[Command]:
    """The updates among a stage's commands at a BP batch's end, which judge no predictions."""
    return [replace(command, fields={name: value for name, value in command.fields.items() if name != "quality"},
                    operands={name: tensor for name, tensor in command.operands.items() if name != "d"},
                    numbers={name: tensor for name, tensor in command.numbers.items() if name not in ("d", "scale")})
            for command in commands if not command.fields.get("predictor")]  # fmt: skip


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

    @classmethod
    def on(
        cls, schedule: Schedule, held: int, commands: Iterable[Command], sums: Mapping[int, Sequence[Command]]
    ) -> "Places":
        """The places in the memory of a device with these commands of a batch, and sums by stage."""
        used: list[set[str]] = [set() for _ in range(schedule.replicas)]
        for command in commands:
            used[schedule.replica_of(command.micro_batch)] |= {*command.operands.values()}
        both = frozenset.intersection(*map(frozenset, used)) if len(used) > 1 else frozenset()
        apart = {command.operands["c"] for each in sums.values() for command in each} & used[-1]
        return cls(schedule, held, both, frozenset(apart))

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
            return micro_batch % len(self.schedule.of_replica(1))
        return micro_batch % self.held + self.held * replica * (name in self.both)


class Exchange:
    """Sums on their way between the replicas of a stage, each a tensor with the micro-batch it is sent as.

    The first replica sends its sums of gradients after its last backward pass, the second one after its update. Of the
    predictor's input the second one sends a part after each forward pass, the first one in GP its sum after the last.
    """

    def __init__(self, schedule: Schedule, layers: Sequence[Layer], stage_of: Mapping[str, int], scales: Sequence[str]):
        self._schedule = schedule
        self._sums: dict[int, list[str]] = {}
        self._means: dict[int, list[Layer]] = {}
        for layer in layers if schedule.replicas > 1 else ():
            if layer.trains:
                self._sums.setdefault(stage_of[layer.name], []).append(sum_of(layer))
            if layer_tensor(layer, "scale") in scales:  # which is predicted
                self._means.setdefault(stage_of[layer.name], []).append(layer)

    def received(self, step: Step) -> list[tuple[str, int]]:
        """The sums that a replica needs for a step."""
        if step.what is not What.UPDATE:
            return []
        share = len(self._schedule.of_replica(0))
        sums = [] if step.phase == GP else self.sums(step.stage)
        if step.replica:
            return self._to(1, self.means(step.stage) if step.phase == GP else sums)
        return self._to(0, sums) + [(name, part) for part in range(share) for name in self.means(step.stage, _MEAN)]

    def sent(self, step: Step) -> list[tuple[str, int]]:
        """The sums that the other replica needs from a step."""
        if self._schedule.replicas == 1:
            return []
        if step.what is What.UPDATE and step.replica and step.phase != GP:
            return self._to(0, self.sums(step.stage))
        if step.what is What.FORWARD and step.replica:
            assert step.micro_batch is not None
            part = step.micro_batch - self._schedule.of_replica(1).start  # its number among the first one's
            return [(name, part) for name in self.means(step.stage, _MEAN)]
        last = self._schedule.of_replica(0)[-1]
        if step.micro_batch == last and step.what is What.BACKWARD:
            return self._to(1, self.sums(step.stage))
        if step.micro_batch == last and step.phase == GP:
            return self._to(1, self.means(step.stage))
        return []

    def other(self, replica: int) -> int:
        """A micro-batch of the other replica."""
        return self._schedule.of_replica(1 - replica).start

    def sums(self, stage: int) -> list[str]:
        """The sums of a stage's gradients; none without replicas."""
        return self._sums.get(stage, [])

    def means(self, stage: int, part: str = "reorganised") -> list[str]:
        """The predictor's inputs of a stage's layers, or other tensors; none without replicas or predictions."""
        return [layer_tensor(layer, part) for layer in self._means.get(stage, [])]

    def judged(self, place: int) -> list[str]:
        """The scales of the layers whose predictions a device judges, for its partner too; none without replicas."""
        own = [stage for (replica, stage), at in self._schedule.places.items() if not replica and at.forward == place]
        return [name for stage in own for name in self.means(stage, "scale")]

    def _to(self, replica: int, names: Iterable[str]) -> list[tuple[str, int]]:
        return [(name, self._schedule.of_replica(replica)[-1]) for name in names]
