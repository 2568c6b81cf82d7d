"""Sections of a batch: the commands of a stage's forward pass, backward pass or update, and what crosses stages.

Tensors keep their names and numbers of the whole network, so that commands are those of one device.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...spec.commands import Opcode, Phase
from ...spec.opcodes import BACKWARD_WEIGHTS, UPDATES
from ..compiler.graph import Graph
from ..compiler.ir import Step as Command
from ..compiler.lowering import Kind, Layer
from ..compiler.tensors import PREDICTOR
from .cutting import node_of
from .steps import PipelineError, What

__all__ = ["Crossing", "Sections"]

_INPUT, _WEIGHT = What.BACKWARD_INPUT, What.BACKWARD_WEIGHT


@dataclass(frozen=True)
class Crossing:
    """A tensor that one stage writes and another one reads, in the forward or in the backward pass."""

    tensor: str
    writer: int
    reader: int
    backward: bool


@dataclass
class Sections:
    """The commands of a micro-batch by kind of step and stage; those of the predictor's Adam are of stage 0.

    Parameters
    ----------
    graph, commands: the network, and a batch's commands with updates
    stage_of: the stage of each node
    predicts_late: predictors read the output of a stage at its update alone, since other micro-batches add to it
    """

    graph: Graph
    commands: Sequence[Command]
    stage_of: dict[str, int]
    predicts_late: bool = False
    crossings: list[Crossing] = field(default_factory=list)

    def __post_init__(self):
        self._sorted: list[tuple[What, int, Command]] = []
        forward, writers = True, dict[str, int]()
        for command in self.commands:
            if command.opcode == Opcode.HOST:
                forward = False
            elif command.name == PREDICTOR:
                adam = command.opcode == Opcode.ADAM  # beside it the gradient is cleared, before the last stage learns
                own = (What.ADAM, 0) if adam else (What.LEARN, max(self.stage_of.values()))
                self._sorted.append((*own, command))
            elif command.operands:
                kind = self._forward_kind(command) if forward else _kind(command, self.graph.layers)
                stage = self.stage_of[node_of(command, self.graph)]
                if command.name and not forward:  # a sum or a mask, made where its last part is
                    stage = min(stage for name in command.operands.values() if (stage := writers.get(name, -1)) >= 0)
                if not forward:
                    writers[command.operands["out"]] = stage
                self._sorted.append((kind, stage, command))
        self._cross()

    def of(self, what: What, stage: int, also: tuple[What, ...] = ()) -> list[Command]:
        """The commands of a step, and of those ``also``, in their order; a backward pass has those of both halves."""
        kinds = (*((_INPUT, _WEIGHT) if what is What.BACKWARD else (what,)), *also)
        return [command for kind, of, command in self._sorted if kind in kinds and of == stage]

    def received(self, what: What, stage: int) -> list[Crossing]:
        """The tensors that a stage needs from others for a step."""
        return [each for each in self.crossings if each.reader == stage and each.backward == _backward(what)]

    def sent(self, what: What, stage: int) -> list[Crossing]:
        """The tensors that others need from a stage's step."""
        return [each for each in self.crossings if each.writer == stage and each.backward == _backward(what)]

    def _forward_kind(self, command: Command) -> What:
        """The kind of a command before the loss; in GP a stage predicts and updates after its last forward step."""
        predicts = command.fields.get("predictor") and (self.predicts_late or command.phases == Phase.GP)
        return What.UPDATE if predicts or command.opcode in UPDATES else What.FORWARD

    def _cross(self) -> None:
        """Find the crossings; raises PipelineError for one that has no message."""
        written: dict[str, tuple[What, int]] = {}
        seen: set[tuple[str, int]] = set()
        for kind, stage, command in self._sorted:
            if kind in (What.LEARN, What.ADAM):  # the predictor's gradient has messages of its own
                continue
            names = {name for operand, name in command.operands.items() if operand != "out"} | {
                *command.numbers.values()
            }
            for name in sorted(names):
                what, writer = written.get(name, (kind, stage))
                if writer == stage or (name, stage) in seen:
                    continue
                seen.add((name, stage))
                backward = what is not What.FORWARD
                if what is _WEIGHT or (stage < writer) != backward:
                    raise PipelineError(f"{name} is written in stage {writer} and read in stage {stage}: cut elsewhere")
                self.crossings.append(Crossing(name, writer, stage, backward))
            for operand, name in command.operands.items():
                if operand == "out" or (operand == "b" and command.opcode == Opcode.MAXPOOL):
                    written[name] = kind, stage


def _backward(what: What) -> bool | None:
    """True for steps that receive and send gradients, False for those of values, None for those of neither."""
    return {What.FORWARD: False, What.BACKWARD: True, _INPUT: True}.get(what)


def _kind(command: Command, layers: Sequence[Layer]) -> What:
    """The kind of a command after the loss; a batch norm's gradients are needed for that of its input."""
    if command.fields.get("predictor"):
        return What.UPDATE if command.opcode == Opcode.FORWARD else What.LEARN  # its error is beside the update
    if command.opcode in UPDATES:
        return What.UPDATE
    weights = command.opcode in BACKWARD_WEIGHTS or command.operands["out"].endswith(".gradient_sum")
    return _WEIGHT if weights and layers[command.layer].kind is not Kind.NORM else _INPUT
