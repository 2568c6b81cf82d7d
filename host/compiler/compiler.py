"""From layers to the accelerator: tensors with numbers and addresses, and the program of a batch."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from ...spec.commands import Command, Opcode, Phase
from ...spec.config import Config
from ..program import ALIGNMENT, Line, Program, header
from ..training.settings import PREDICTING
from .batch import Step, first_trained, network_steps
from .dependencies import with_waits
from .lowering import Kind, Layer, LoweringError
from .mapping import choose_mapping
from .memory_plan import ALIGNMENT as BLOCK_BYTES
from .memory_plan import MemoryPlan
from .predictor import Predictor
from .quantise import operand_type
from .substitutes import Control
from .tensors import Tensor

__all__ = ["PREDICTOR_LOAD", "PREDICTOR_SAVE", "Compiled", "compile_network"]

DIFFERENT_PHASES = 3
"""With a predictor, copies of a line that there is room for on the average: waits differ between backpropagation, GP
and evaluation."""

PREDICTOR_LOAD, PREDICTOR_SAVE = "predictor.load", "predictor.save"
"""Programs that copy the predictor's weights, which may be on chip, from where the host writes them, and back."""


@dataclass(frozen=True)
class Compiled:
    """A network bound to a batch size and a configuration.

    ``tensors`` by name: ``input`` as ``[n][y][x][c]`` (``ring_entries`` of them, ``entry_bytes`` apart),
    ``loss.gradient``, and for each layer ``NAME.output``, ``.gradient`` (of its output), ``.index``
    (MAXPOOL), ``.weight``, ``.low``, ``.momentum``, ``.weight_gradient``.
    """

    layers: tuple[Layer, ...]
    tensors: dict[str, Tensor]
    plan: MemoryPlan
    program: Program
    entry_bytes: int
    predictor: Predictor | Control | None = None
    copies: dict[str, Program] = field(default_factory=dict)
    """With a predictor: PREDICTOR_LOAD, PREDICTOR_SAVE."""

    @property
    def window(self) -> int:
        """Address of the predictor memory."""
        return self.tensors["predictor.conv.weight"].address


def compile_network(
    layers: list[Layer], batch: int, config: Config, ring_entries: int = 1, source: str | None = None
) -> Compiled:
    """Plan memory and write the program; raises LoweringError, MappingError, PlanError.

    ``source`` of gradients in phase GP, with which goes the predictor; None: there is no such phase.
    """
    predictor: Predictor | Control | None = None
    if source is not None:
        predictor = (Predictor if source in PREDICTING else Control)(layers, batch, config, source)
    declared = list(_tensors(layers, batch, config))
    if predictor is not None:
        declared += predictor.tensors(1 + max(tensor.number for _, tensor in declared))
    used = max(tensor.number for _, tensor in declared) + 1
    if used > config.n_tensors:
        raise LoweringError(f"{used} tensors need exponents, {config.name} has room for {config.n_tensors}")
    steps = list(network_steps(layers, predictor))
    copying: dict[str, list[Step]] = {}
    if isinstance(predictor, Predictor):
        for name, load in ((PREDICTOR_LOAD, True), (PREDICTOR_SAVE, False)):
            copying[name] = [*predictor.copies(load), Step(Opcode.END, Phase.ALL)]
    plan = MemoryPlan("program", "host", "state", "predictor", "activations")
    copies = 1 if predictor is None else DIFFERENT_PHASES
    plan.add("program", "program", (copies * len(steps) + 1) * ALIGNMENT, ALIGNMENT)
    for name, extra in copying.items():
        plan.add("program", name, (len(extra) + 1) * ALIGNMENT, ALIGNMENT)
    left = config.predictor_bytes  # all of them, for the device may have no other memory at their addresses
    for group, tensor in declared:
        if not group:
            continue
        copies = ring_entries if tensor.name == "input" else 1
        alignment = BLOCK_BYTES
        if group == "predictor":
            alignment = config.predictor_window if left == config.predictor_bytes else BLOCK_BYTES
            left -= _entry_bytes(tensor)
        plan.add(group, tensor.name, copies * _entry_bytes(tensor), alignment)
    if isinstance(predictor, Predictor):
        plan.add("predictor", "predictor.unused", left)
    plan.place(config.dram.capacity_bytes, config.dram.name, batch)
    tensors = {
        tensor.name: replace(tensor, address=plan[tensor.name].address if group else 0) for group, tensor in declared
    }

    def program(name, steps):
        lines = [Line(header(config)), *(_line(step, layers, batch, config, tensors) for step in steps)]
        written = Program(with_waits(lines, config), plan[name].address)
        assert len(written.bytes()) <= plan[name].n_bytes, f"{name}: more lines than there is room for"
        return written

    programs = {name: program(name, extra) for name, extra in copying.items()}
    entry = _entry_bytes(tensors["input"])
    return Compiled(tuple(layers), tensors, plan, program("program", steps), entry, predictor, programs)


def _entry_bytes(tensor: Tensor) -> int:
    return -(-tensor.n_bytes // BLOCK_BYTES) * BLOCK_BYTES


def _tensors(layers: list[Layer], batch: int, config: Config) -> Iterator[tuple[str, Tensor]]:
    """All tensors and their group in memory, numbered."""
    operand, numbers = operand_type(config.operand_width), count()
    value = next(numbers)
    first = layers[0]
    yield "host", Tensor("input", (batch, first.h, first.w, first.c), operand, value)
    trained = first_trained(layers)
    for place, layer in enumerate(layers):
        shape = (batch, layer.oh, layer.ow, layer.q)
        value = value if layer.copies else next(numbers)  # a copy keeps its input's exponent
        yield "activations", Tensor(f"{layer.name}.output", shape, operand, value)
        if layer.kind is Kind.MAXPOOL:
            yield "activations", Tensor(f"{layer.name}.index", shape, operand, -1)
        if trained <= place < len(layers) - 1:
            yield "activations", Tensor(f"{layer.name}.gradient", shape, operand, next(numbers))
        if layer.kind is Kind.GEMM:
            rows = (layer.q, layer.filter_elements)
            yield "state", Tensor(f"{layer.name}.weight", rows, operand, next(numbers))
            yield "state", Tensor(f"{layer.name}.low", rows, np.dtype("<i2"), -1)
            yield "state", Tensor(f"{layer.name}.momentum", rows, np.dtype("<i4"), next(numbers))
            yield "state", Tensor(f"{layer.name}.weight_gradient", rows, operand, next(numbers))
    yield "host", Tensor("loss.gradient", shape, operand, next(numbers))


def _line(step: Step, layers: list[Layer], batch: int, config: Config, tensors: dict[str, Tensor]) -> Line:
    """The step as a command: shapes, tile, addresses and numbers filled in."""
    fields = {"phase_mask": int(step.phases), "layer": step.layer, **step.fields}
    for operand, name in step.operands.items():
        ring = name == "input"  # its address is where the ring says
        offset = step.offsets.get(operand, 0) * tensors[name].dtype.itemsize
        fields[f"{operand}_addr"] = offset if ring else tensors[name].address + offset
        fields[f"{operand}_id"] = max(0, tensors[name].number)
        if ring:
            fields["ring"] = 1
    fields |= {f"{operand}_id": tensors[name].number for operand, name in step.numbers.items()}
    if not step.operands:
        return Line(Command(step.opcode, fields))
    name = step.name or layers[step.layer].name
    if step.opcode not in (Opcode.UPDATE, Opcode.ADAM):
        fields |= step.shape if step.shape is not None else {"n": batch, **layers[step.layer].geometry()}
        fields |= choose_mapping(Command(step.opcode, fields), config, name).fields()
    return Line(Command(step.opcode, fields), name)
