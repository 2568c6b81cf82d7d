"""The program of a device in a pipeline: its row of the schedule, with a stop of the host between two steps.

Activations of micro-batches that are under way at the same time have memory each, a *slot*. START clears the maxima
that exponents follow, so a batch is one program.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ...spec.commands import Opcode, Phase
from ...spec.config import Config
from ...spec.phases import GP
from ..compiler.batch import Batch
from ..compiler.compiler import ON_CHIP, add_on_chip, assembled, check_length, check_numbers, declared_tensors
from ..compiler.dependencies import with_waits
from ..compiler.graph import Graph
from ..compiler.ir import BACKPROPAGATION
from ..compiler.ir import Step as Command
from ..compiler.lifetimes import lifetimes
from ..compiler.lowering import Kind, Layer
from ..compiler.memory_plan import ALIGNMENT as BLOCK
from ..compiler.memory_plan import MemoryPlan
from ..compiler.micro_batches import in_micro_batches
from ..compiler.predictor_steps import calibrated_once
from ..compiler.sources import source_of
from ..compiler.tensors import Tensor, layer_tensor, loss_gradient
from ..program import ALIGNMENT, Line, Program, header
from .cutting import balanced, cut_at, node_cycles
from .refusals import check_network, check_replicas
from .replicas import Exchange, Places, followed, is_mean, is_part, kept_apart, parts_of, unjudged
from .sections import Crossing, Sections
from .shared_predictor import BATCH_END, check_source, kept, tracked
from .stale import COMMITS, alone, moved
from .steps import PipelineError, Schedule, Step, What, calibrating_steps, learning_steps, under_way

__all__ = ["DeviceProgram", "Staged"]

_LINES = 3
"""Lines for each command at most, on the average: waits differ between phases."""


@dataclass(frozen=True)
class DeviceProgram:
    """A device of a pipeline: layers, memory, and a program whose steps are parted by HOST.

    ``slots``: tensors by name, for each micro-batch under way, or for all if there are replicas; ``held``: of a stage,
    micro-batches whose activations it holds at once; ``input_bytes``: of a micro-batch, 0 without input.
    ``gp``: the program of a batch of phase GP, if there is one; ``copies``: the source's own programs; ``tracked``: the
    predictor's tensors whose maxima the device sees, in a batch that calibrates and in others; ``followed``: numbers of
    the tensors whose exponents replicas agree on; ``moved``: see :func:`.stale.moved`; ``alone``: the program without
    staleness, if there is one.
    """

    layers: tuple[Layer, ...]
    steps: tuple[Step, ...]
    slots: tuple[dict[str, Tensor], ...]
    plan: MemoryPlan
    program: Program
    calibrating: Program
    calibrating_steps: tuple[Step, ...]
    input_bytes: int
    held: int
    gp: Program | None = None
    gp_steps: tuple[Step, ...] = ()
    copies: dict[str, Program] = field(default_factory=dict)
    tracked: dict[bool, frozenset[str]] = field(default_factory=dict)
    followed: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    alone: Program | None = None
    alone_steps: tuple[Step, ...] = ()

    def tensors(self, micro_batch: int) -> dict[str, Tensor]:
        """The tensors that a micro-batch uses."""
        return self.slots[micro_batch % len(self.slots)]


class Staged:
    """A network cut into stages for the devices of a schedule.

    Parameters
    ----------
    graph: the network, for a micro-batch of ``batch`` images
    schedule: one batch with true gradients
    cut: names of the layers that stages after the first begin with; None: balanced by expected cycles
    source: the source of gradients in GP batches, see :class:`~adagp.host.training.network.Network`
    gp: the schedule of a GP batch, if there is a source
    hybrid: there are programs without staleness too

    Attributes
    ----------
    source: the source of gradients, as the batch that calibrates has it
    sections: commands by stage, and what crosses stages
    sums: commands by stage that add what the second replica keeps apart, before updates; empty without replicas
    exchange: what replicas tell each other
    stage_of: the stage of each node
    cycles: expected cycles of each node in a batch
    tensors: all tensors by name, without addresses
    devices: the programs

    Raises PipelineError, LoweringError, MappingError and PlanError.
    """

    def __init__(
        self, graph: Graph, batch: int, config: Config, schedule: Schedule, cut: Sequence[str] | None = None,
        source: str | None = None, gp: Schedule | None = None, hybrid: bool = False,
    ):  # fmt: skip
        check_network(graph, schedule, hybrid)
        check_source(source, config)
        self.graph, self.batch, self.config, self.schedule, self.gp = graph, batch, config, schedule, gp
        self.alone = alone(schedule) if hybrid else None
        make = partial(source_of, graph.layers, batch, config, source, not schedule.eager)
        self.source = make()
        work = Batch.of(graph, self.source, batch, config)
        updates = schedule.micro_batches if schedule.eager else 1
        self.cycles = node_cycles(graph, work, self.source, batch, config, schedule.micro_batches, updates)
        stages = schedule.stages
        self.stage_of = balanced(self.cycles, stages) if cut is None else cut_at(self.cycles, cut, stages)
        self.sections = Sections(graph, list(calibrated_once(work.steps)), self.stage_of)
        self._lives = lifetimes(graph, work)
        self._declared = declared_tensors(graph, work, self.source, config, self._lives)
        check_replicas(schedule, work.pieces)
        self.exchange = Exchange(schedule, graph.layers, self.stage_of, self.source.scales)
        self.sums: dict[int, list[Command]] = {}
        self._parts: list[Sections] | None = None  # those of a micro-batch are alike, if each has an update
        if not schedule.eager:
            whole = in_micro_batches(graph, batch, config, schedule.micro_batches, make).steps
            self._parts = [self._part([step for step in whole if step.micro_batch == m], m)
                           for m in range(schedule.micro_batches)]  # fmt: skip
        if self.sums:
            self._declared += [("state", tensor) for tensor in parts_of(graph, (each for _, each in self._declared))]
        self.tensors = {tensor.name: tensor for _, tensor in self._declared}
        self.devices = [self._device(place) for place in range(schedule.devices)]
        makers = [self.graph.producers.get(result.name) for result in graph.results]
        if any(maker is None or self.stage_of[maker.name] != stages - 1 for maker in makers):
            raise PipelineError("a result of the network isn't the last stage's: cut elsewhere")

    def has_message(self, crossing: Crossing) -> bool:
        """True if a tensor goes to another device, for the first of its stages that reads it."""
        place = self.device_of(crossing.reader)
        alike = [each for each in self.sections.crossings
                 if each.tensor == crossing.tensor and self.device_of(each.reader) == place]  # fmt: skip
        first = (max if crossing.backward else min)(each.reader for each in alike)
        return place != self.device_of(crossing.writer) and crossing.reader == first

    def device_of(self, stage: int, micro_batch: int = 0) -> int:
        """The place of the device that has a stage, in the replica that a micro-batch passes."""
        return self.schedule.places[self.schedule.replica_of(micro_batch), stage].forward

    def parts(self, step: Step) -> list[tuple[str, int]]:
        """The gradients and predictor's inputs that are apart until an update, by name and micro-batch; in GP once."""
        sums = self.sums_of(step) if step.replica or step.phase != GP else []
        return sorted({(command.operands["c"], command.micro_batch) for command in sums
                       if is_part(command.operands["c"])})  # fmt: skip

    def sums_of(self, step: Step) -> list[Command]:
        """The commands that add up before an update: gradients in the last replica, the predictor's input in the first.

        In GP both replicas predict, and add up its input.
        """
        sums = self.sums.get(step.stage, []) if step.what is What.UPDATE else []
        if step.phase == GP:
            return [each for each in sums if each.phases & Phase.GP]
        return [each for each in sums if each.phases & BACKPROPAGATION
                and is_mean(each.operands["out"]) == (step.replica == 0)]  # fmt: skip

    def batch_end(self, replica: int) -> int:
        """The micro-batch of a replica's messages that come after all of them."""
        return self.schedule.of_replica(replica)[-1] if replica else BATCH_END

    def _part(self, commands: list[Command], micro_batch: int) -> Sections:
        """The commands of a micro-batch."""
        if self.schedule.replica_of(micro_batch):
            commands, sums = kept_apart(self.graph, commands)
            for command in sums:
                self.sums.setdefault(self.stage_of[self.graph.layers[command.layer].name], []).append(command)
        return Sections(self.graph, commands, self.stage_of, predicts_late=self.schedule.replicas > 1)

    def _device(self, place: int) -> DeviceProgram:
        steps = self.schedule.lists[place]
        own = sorted({step.stage for step in steps})
        calibrating, gp_steps = tuple(calibrating_steps(self.schedule, place)), tuple[Step, ...]()
        if self.gp:
            learning, gp_steps = learning_steps(self.schedule, place), self.gp.lists[place]
            calibrating = (*calibrating, *learning)
            steps = (*steps, *(step for step in learning if step.what is What.ADAM or not step.replica))
        eager, alone_steps = self.schedule.eager, self.alone.lists[place] if self.alone else ()
        commands = {
            "program": self._commands(steps, self._parts, commits=eager), "calibrating": self._commands(calibrating),
        }  # fmt: skip
        if gp_steps:
            commands["gp"] = self._commands(gp_steps, self._parts, Phase.GP)
        if alone_steps:
            commands["alone"] = self._commands(alone_steps, commits=True)
        commands |= self.source.programs()
        held = max(under_way([step for step in steps if step.stage == stage]) for stage in own)
        places = Places.on(self.schedule, held, commands["program"], self.sums)
        plan, tensors, entry = self._placed(commands, places)

        def program(name: str) -> Program:
            lines = [Line(header(self.config))]
            for command in commands[name]:
                mine = tensors[command.micro_batch % len(tensors)]
                lines.append(assembled(command, self.graph, self.batch, self.config, mine, entry))
            written = Program(with_waits(lines, self.config), plan[name].address)
            check_length(len(written))
            assert len(written.bytes()) <= plan[name].n_bytes, f"{name}: more lines than there is room for"
            return written

        layers = tuple(layer for layer in self.graph.layers if self.stage_of.get(layer.name) in own)
        made = {name: program(name) for name in commands}
        return DeviceProgram(
            layers, steps, tensors, plan, made["program"], made["calibrating"], calibrating, entry, held,
            made.get("gp"), gp_steps, {name: made[name] for name in self.source.programs()},
            {name == "calibrating": tracked(commands[name]) for name in ("program", "calibrating")},
            followed(commands["program"], tensors[0]) if self.schedule.replicas > 1 else (),
            moved(self.sections, own[0], layers, tensors[0]) if eager else (), made.get("alone"), alone_steps,
        )  # fmt: skip

    def _commands(
        self, steps: Sequence[Step], parts: Sequence[Sections] | None = None, phases: Phase = BACKPROPAGATION,
        commits: bool = False,
    ) -> list[Command]:  # fmt: skip
        """The commands of steps in the ``phases``; without ``parts``, those of a batch of one micro-batch for each.

        In the batch that calibrates, a stage updates as it learns, layer by layer: each finds exponents that both use.
        ``commits``: exponents change after forward steps and updates, not at the end alone.
        """
        found, before = list[Command](), None
        for step in steps:
            if before is not None:
                found += [Command(Opcode.COMMIT, Phase.TRAIN)] * (commits and before.what in COMMITS)
                found.append(Command(Opcode.HOST, Phase.ALL, name=str(step)))
            before = step
            number = len(parts or [0]) - 1 if step.micro_batch is None else step.micro_batch
            sections = self.sections if parts is None else parts[number]
            stage = 0 if step.what is What.ADAM else step.stage
            if parts is None and self.gp and step.what is What.UPDATE:
                continue
            also = (What.UPDATE,) if parts is None and step.what is What.LEARN else ()
            of_step = sections.of(step.what, stage, also)
            if parts is None:
                of_step = [replace(each, micro_batch=step.micro_batch or 0) for each in of_step]
            else:
                judges = step.what is not What.UPDATE or step.phase == GP or not step.replica
                of_step = [*self.sums_of(step), *(of_step if judges else unjudged(of_step))]
            found += [each for each in of_step if each.phases & phases]
        return [*found, Command(Opcode.COMMIT, Phase.TRAIN), Command(Opcode.END, Phase.ALL)]

    def _placed(
        self, commands: dict[str, list[Command]], places: Places
    ) -> tuple[MemoryPlan, tuple[dict[str, Tensor], ...], int]:
        """The memory plan, the tensors of each slot, and the bytes of a micro-batch's input."""
        used = {name for each in commands.values() for step in each
                for name in (*step.operands.values(), *step.numbers.values())}  # fmt: skip
        for layer in self.graph.layers:
            if layer.weighted and layer_tensor(layer, "weight") in used:
                used |= {layer_tensor(layer, part) for part in layer.state} | {layer_tensor(layer, "weight_gradient")}
        used |= kept(self.source, self._declared)
        plan = MemoryPlan("program", "host", "state", ON_CHIP, "activations", by_batch=("host",))
        for name, each in commands.items():
            plan.add("program", name, (_LINES * len(each) + 1) * ALIGNMENT, ALIGNMENT)
        losses = {loss_gradient(number) for number in range(len(self.graph.results))}
        constants = {layer_tensor(each, "constants") for each in self.graph.layers if each.kind is Kind.NORM}
        several = {*self._lives, *constants, *losses, *places.apart}
        mine = [(group, tensor) for group, tensor in self._declared if tensor.name in used]
        add_on_chip(plan, mine, self.config)
        entry, within = 0, {}
        for group, tensor in mine:
            if tensor.name in self.graph.inputs:
                within[tensor.name] = entry
                entry += _whole(tensor)
            elif group not in ("", ON_CHIP):
                copies = places.copies(tensor.name) if tensor.name in several else 1
                plan.add(group, tensor.name, copies * _whole(tensor))
        if entry:
            plan.add("host", "inputs", self.schedule.micro_batches * entry)
        plan.place(self.config.dram.capacity_bytes, self.config.dram.name, self.batch)
        number = 1 + max(tensor.number for _, tensor in self._declared)
        check_numbers(number + places.held * len(losses), self.config)

        def of(tensor: Tensor, slot: int) -> Tensor:
            if tensor.name in within:
                return replace(tensor, address=plan["inputs"].address + within[tensor.name])
            if tensor.name not in plan:  # a mere number
                return tensor
            place = places.of(tensor.name, slot) if tensor.name in several else 0
            address = plan[tensor.name].address + place * _whole(tensor)
            if tensor.name in losses:  # whose exponent the host sets for each micro-batch
                own = number + place * len(losses) + sorted(losses).index(tensor.name)
                return replace(tensor, address=address, number=own)
            return replace(tensor, address=address)

        return plan, tuple({each.name: of(each, slot) for _, each in mine} for slot in range(places.slots)), entry


def _whole(tensor: Tensor) -> int:
    return -(-tensor.n_bytes // BLOCK) * BLOCK
