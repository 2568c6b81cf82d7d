"""A network as the accelerator runs it: tensors with numbers and addresses, and the program of a batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ...spec.commands import Command, Opcode
from ...spec.config import Config
from ...spec.opcodes import BACKWARD, BACKWARD_WEIGHTS, GEMMS
from ..program import ALIGNMENT, MAX_COMMANDS, Line, Program, header
from .batch import Batch
from .calibration import calibrating
from .channel_groups import tensors_of_groups
from .declarations import declarations
from .dependencies import with_waits
from .gradient_source import GradientSource
from .graph import Graph, as_graph
from .ir import Step
from .islands import Island, Stop
from .lifetimes import lifetimes
from .lowering import Kind, Layer, LoweringError
from .mapping import choose_mapping
from .memory_plan import ALIGNMENT as BLOCK_BYTES
from .memory_plan import MemoryPlan
from .micro_batches import batch_of
from .predictor_steps import calibrated_once
from .sources import check_savings, source_of
from .tensors import INPUT, PREDICTOR_UNUSED, Tensor, predictor_tensor
from .values import Value
from .whole_map import as_pixel

__all__ = [
    "ON_CHIP", "Compiled", "add_on_chip", "assembled", "check_length", "check_numbers", "compile_network",
    "declared_tensors",
]  # fmt: skip

CALIBRATING = "calibrating"
"""Name of the program of the batch that calibrates, if it isn't that of all batches."""
UNTAUGHT = "untaught"
"""Name of the program of batches in which the predictor doesn't learn, if there are some with true gradients."""
ON_CHIP = "predictor"
"""The group of tensors that may be in the predictor memory."""
HOST_TRAINS = "the host's parameters, which no predictor is for"
"""The reason why GP batches leave an island's parameters as they are."""
DIFFERENT_PHASES = 3
"""Lines of the program per step, on the average, if phases have other steps: waits differ between backpropagation, GP
and evaluation."""


@dataclass(frozen=True)
class Compiled:
    """A network bound to a batch size and a configuration.

    ``tensors`` by name: ``input``, ``input1`` ... as ``[n][y][x][c]`` (``ring_entries`` of them, ``entry_bytes``
    apart), ``loss.gradient``, ``loss.gradient1`` ..., and for each layer ``NAME.output``, ``.gradient`` (of its
    output), ``.index`` (MAXPOOL), ``.weight``, ``.low``, ``.momentum``, ``.weight_gradient``; those of the ``source``
    of gradients; each island's results ``NAME.output``, ``.output1`` ..., and partial gradients. ``layers`` are those
    of the ``graph``.
    ``stops`` are the HOST commands in program order.
    """

    layers: tuple[Layer, ...]
    config: Config
    tensors: dict[str, Tensor]
    plan: MemoryPlan
    program: Program
    entry_bytes: int
    source: GradientSource
    copies: dict[str, Program] = field(default_factory=dict)
    """The source's programs beside the batch's."""
    stops: tuple[Stop, ...] = ()
    """The HOST commands in program order."""
    values: dict[str, Value] = field(default_factory=dict)
    """Values by name, of those at least that stops read or write."""
    graph: Graph = field(kw_only=True)
    untaught: Program | None = None
    """The program of batches from whose true gradients the predictor doesn't learn; GP batches are the same in it."""
    calibrating: Program = field(kw_only=True)
    """The program of a batch that calibrates."""
    calibrating_stops: tuple[Stop, ...] = field(kw_only=True)
    """Its HOST commands."""
    steps: tuple[Step, ...] = field(kw_only=True)
    """The steps of a micro-batch, in which the plan counts lifetimes."""
    micro_batches: int = 1
    """Those of a batch. ``tensors``, ``values`` and ``graph`` are of one; the batch that calibrates has one."""

    @property
    def unpredicted(self) -> dict[str, str]:
        """Layers and islands with parameters that GP batches don't train though other batches do, and why."""
        if not self.source.trains_in_gp:
            return {}
        hosted = {island.name: HOST_TRAINS for island in self.graph.islands if island.parameters}
        return {**self.source.unpredicted, **hosted}

    @property
    def window(self) -> range:
        """Addresses of the predictor memory; empty without a predictor."""
        first = self.tensors.get(predictor_tensor("weight", "conv"))
        return range(0) if first is None else range(first.address, first.address + self.config.predictor_bytes)


def compile_network(
    network: Graph | Sequence[Layer], batch: int, config: Config, ring_entries: int = 1, source: str | None = None,
    dataflow: str = "free", micro_batches: int = 1, predictor_every: int = 1, gp_momentum: str = "update",
    later: bool = True,
) -> Compiled:  # fmt: skip
    """Plan memory and write the program; raises LoweringError, MappingError, PlanError.

    ``source`` of gradients in phase GP, if there is one, and ``gp_momentum``: see spec/schedule.py. ``dataflow``: the
    operand that GEMMs keep in the array (see dataflow.py). With several ``micro_batches``, ``batch`` are the images of
    one. ``predictor_every``: the predictor learns from one of so many batches with true gradients; the others have a
    program of their own. With ``later`` MAX predicts a layer while later ones are computed, if GP stops for the host.
    """
    layers = (graph := as_graph(network, batch)).layers
    if not any(layer.weighted for layer in layers):
        raise LoweringError("the network has no layer with weights that the machine can compute")
    several = micro_batches > 1
    check_savings(source, predictor_every, gp_momentum)
    later = later and any(isinstance(node, Island) for node in graph.nodes)
    make = partial(source_of, layers, batch, config, source, several, gp_momentum=gp_momentum, stops=later)
    gradients = make()
    work = Batch.of(graph, gradients, batch, config)
    lives = lifetimes(graph, work)
    declared = declared_tensors(graph, work, gradients, config, lives)
    whole = first = work
    if several:
        first = replace(work, steps=list(calibrated_once(work.steps)))
        whole = batch_of(graph, batch, config, micro_batches, make)
    steps = {"program": whole.steps, **gradients.programs()}
    stops = {"program": whole.stops}
    if predictor_every > 1:
        untaught = batch_of(graph, batch, config, micro_batches, partial(make, learns=False))
        steps[UNTAUGHT], stops[UNTAUGHT] = untaught.steps, untaught.stops
        assert untaught.stops == whole.stops, "both stop for the host at the same places"
    if graph.calibrates_apart:
        steps[CALIBRATING], stops[CALIBRATING] = calibrating(graph, first.steps, work.stops)
    elif several:
        steps[CALIBRATING], stops[CALIBRATING] = first.steps, work.stops
    for each in steps.values():
        check_length(len(each) + 1)
    differ = gradients.has_gp or several or any(layer.kind in (Kind.NORM, Kind.DROPOUT) for layer in layers)
    lines = dict.fromkeys(stops, DIFFERENT_PHASES) if differ else {}
    plan = MemoryPlan("program", "host", "state", ON_CHIP, "activations", by_batch=("host",))
    for name, each in steps.items():
        plan.add("program", name, (lines.get(name, 1) * len(each) + 1) * ALIGNMENT, ALIGNMENT)
    _add_tensors(plan, declared, config, graph, ring_entries * micro_batches)
    plan.place(config.dram.capacity_bytes, config.dram.name, batch, lives)
    entry, within = _ring_entry(graph, declared)
    tensors = {tensor.name: replace(tensor, address=_address(tensor, plan, within)) for _, tensor in declared}

    def program(name):
        lines = [Line(header(config))]
        lines += (assembled(step, graph, batch, config, tensors, entry, dataflow) for step in steps[name])
        written = Program(with_waits(lines, config), plan[name].address)
        check_length(len(written))
        assert len(written.bytes()) <= plan[name].n_bytes, f"{name}: more lines than there is room for"
        return written

    programs = {name: program(name) for name in steps}
    main, calibration, untaught_program = (programs.pop(name, None) for name in ("program", CALIBRATING, UNTAUGHT))
    assert main is not None
    return Compiled(
        tuple(layers), config, tensors, plan, main, micro_batches * entry, gradients, programs, tuple(whole.stops),
        graph.values, calibrating=calibration or main, untaught=untaught_program, steps=tuple(work.steps), graph=graph,
        calibrating_stops=tuple(stops.get(CALIBRATING, work.stops)), micro_batches=micro_batches,
    )  # fmt: skip


def declared_tensors(
    graph: Graph, work: Batch, gradients: GradientSource, config: Config, lives: Mapping[str, tuple[int, int]]
) -> list[tuple[str, Tensor]]:
    """All tensors, numbered, with their groups in memory; raises LoweringError for too many."""
    declared = list(declarations(graph, work, config, lives))
    first = 1 + max(tensor.number for _, tensor in declared)
    by_name = {tensor.name: tensor for _, tensor in declared}
    declared += (("", tensor) for tensor in tensors_of_groups(graph, work.steps, by_name, first))
    declared += gradients.tensors(1 + max(tensor.number for _, tensor in declared))
    check_numbers(max(tensor.number for _, tensor in declared) + 1, config)
    return declared


def check_numbers(used: int, config: Config) -> None:
    """Raise LoweringError for more numbers of tensors than the table of exponents has room for."""
    if used > config.n_tensors:
        raise LoweringError(
            f"{used} tensors need exponents, {config.name} has room for {config.n_tensors} (Config.n_tensors):"
            f" take a larger preset, or a Config with n_tensors = {1 << (used - 1).bit_length()}"
        )


def check_length(commands: int) -> None:
    """Raise LoweringError for a program of more commands than the machine can number."""
    if commands > MAX_COMMANDS:
        raise LoweringError(
            f"the network takes {commands} commands, and {MAX_COMMANDS} are the limit; each group of a convolution"
            " takes some of its own, and each pair of matrices in a product"
        )


def _ring_entry(graph: Graph, declared: list[tuple[str, Tensor]]) -> tuple[int, dict[str, int]]:
    """Bytes of a micro-batch in an entry of the input ring, and the place of each argument in it."""
    within, end = {}, 0
    for _, tensor in declared:
        if tensor.name in graph.inputs:
            within[tensor.name] = end
            end += _entry_bytes(tensor)
    return end, within


def _address(tensor: Tensor, plan: MemoryPlan, within: Mapping[str, int]) -> int:
    """A tensor's address, 0 for a mere number."""
    name = tensor.whole or tensor.name
    if name in within:
        return plan[INPUT].address + within[name]
    return plan[name].address + tensor.first * tensor.dtype.itemsize if name in plan else 0


def _add_tensors(
    plan: MemoryPlan, declared: list[tuple[str, Tensor]], config: Config, graph: Graph, inputs: int
) -> None:
    """Ask for memory for all tensors; there is room for the ``inputs`` of so many micro-batches."""
    add_on_chip(plan, declared, config)
    for group, tensor in declared:
        if tensor.name in graph.inputs:
            if tensor.name == INPUT:
                plan.add(group, INPUT, inputs * _ring_entry(graph, declared)[0])
        elif group not in ("", ON_CHIP):
            plan.add(group, tensor.name, _entry_bytes(tensor))


def add_on_chip(plan: MemoryPlan, declared: list[tuple[str, Tensor]], config: Config) -> None:
    """Ask for memory for the tensors of the predictor memory, and for its rest.

    The rest is asked for because the device may have no other memory at those addresses.
    """
    left, alignment = config.predictor_bytes, config.predictor_window
    for group, tensor in declared:
        if group == ON_CHIP:
            plan.add(group, tensor.name, _entry_bytes(tensor), alignment)
            left, alignment = left - _entry_bytes(tensor), BLOCK_BYTES
    if left < config.predictor_bytes:
        plan.add(ON_CHIP, PREDICTOR_UNUSED, left)


def _entry_bytes(tensor: Tensor) -> int:
    return -(-tensor.n_bytes // BLOCK_BYTES) * BLOCK_BYTES


def assembled(
    step: Step, graph: Graph, batch: int, config: Config, tensors: dict[str, Tensor], entry: int,
    dataflow: str = "free",
) -> Line:  # fmt: skip
    """The step as a command: shapes, tile, addresses and numbers filled in; a micro-batch has an ``entry`` of bytes."""
    layers = graph.layers
    fields = {"phase_mask": int(step.phases), "layer": step.layer, **step.fields}
    for operand, name in step.operands.items():
        ring = name in graph.inputs  # its address is where the ring says
        assert operand == "a" or not ring, f"{step.name}: only operand A can be in the ring"
        offset = tensors[name].place(step.offsets.get(operand, 0))
        fields[f"{operand}_addr"] = tensors[name].address + offset - (tensors[INPUT].address if ring else 0)
        if operand != "e":  # a table, which has no exponent
            fields[f"{operand}_id"] = max(0, tensors[name].number)
        if ring:
            fields["a_addr"] += step.micro_batch * entry
            fields["ring"] = 1
    fields |= {f"{operand}_id": tensors[x].number for operand, x in step.numbers.items()} | _pitches(step, tensors)
    if step.opcode == Opcode.COMMIT:  # visits no entries beyond those in use
        fields["out_id"] = config.n_tensors - 1 - max(tensor.number for tensor in tensors.values())
    if not step.operands:
        return Line(Command(step.opcode, fields), step.name)
    name = step.name or layers[step.layer].name
    if step.opcode not in (Opcode.UPDATE, Opcode.ADAM):
        fields |= step.shape if step.shape is not None else {"n": batch, **layers[step.layer].geometry()}
        fields = as_pixel(step.opcode, fields)
        fields |= choose_mapping(Command(step.opcode, fields), config, name, dataflow).fields()
    return Line(Command(step.opcode, fields), name, apart=step.group is not None)


def _pitches(step: Step, tensors: dict[str, Tensor]) -> dict[str, int]:
    """Pitches of operands that are a part of another tensor, or of which a group of channels is used.

    The others have none, or those that the step names.
    """
    used = {operand: tensors[name] for operand, name in step.operands.items()}
    apart = step.group is not None and step.opcode in GEMMS
    if not apart and not any(tensor.pitch for tensor in used.values()):
        return {}
    if apart:
        used = {operand: replace(each, pitch=each.pitch or each.shape[-1]) for operand, each in used.items()}
    if step.opcode in (*BACKWARD_WEIGHTS, Opcode.NORM_SUMS):
        roles = {"a": "x", "b": "y"}
    else:
        roles = {"a": "y", "out": "x"} if step.opcode in BACKWARD else {"a": "x", "out": "y"}
        roles |= {"b": "x"} if step.opcode == Opcode.NORM_APPLY_BACKWARD else {}
    found = {f"{role}_pitch": used[operand].pitch for operand, role in roles.items() if used[operand].pitch}
    result = used["out"].pitch
    for operand in {"c", "d"} & set(used):
        if step.opcode not in BACKWARD_WEIGHTS and (result or used[operand].pitch):
            found[f"{operand}_pitch"] = used[operand].pitch or used[operand].shape[-1]
    return found
