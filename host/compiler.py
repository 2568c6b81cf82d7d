"""From layers to the accelerator: tensors with numbers and addresses, and the program of a batch."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from ..spec.commands import CMode, Command, Opcode, Phase
from ..spec.config import Config
from .assembler import ALIGNMENT, Line, Program, header
from .dependencies import with_waits
from .lowering import Kind, Layer, LoweringError
from .mapping import choose_mapping
from .memory_plan import ALIGNMENT as BLOCK_BYTES
from .memory_plan import MemoryPlan
from .quantise import constant, operand_type

__all__ = ["HYPER", "Compiled", "Tensor", "compile_network"]

HYPER = 0
"""Hyper-parameter index of the learning rate; momentum and weight decay follow."""

BACKPROPAGATION = Phase.WARMUP | Phase.BP


@dataclass(frozen=True)
class Tensor:
    """An array in DRAM. ``number`` is its place in the exponent table, -1 if it has no exponent of its own."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    number: int
    address: int = 0

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize


@dataclass(frozen=True)
class Compiled:
    """A network bound to a batch size and a configuration.

    ``tensors`` by name: ``input`` [n][y][x][c] (``ring_entries`` of them, ``entry_bytes`` apart),
    ``loss.gradient``, and for each layer ``NAME.output``, ``.gradient`` (of its output), ``.index``
    (MAXPOOL), ``.weight``, ``.low``, ``.momentum``, ``.weight_gradient``.
    """

    layers: tuple[Layer, ...]
    tensors: dict[str, Tensor]
    plan: MemoryPlan
    program: Program
    entry_bytes: int


def compile_network(layers: list[Layer], batch: int, config: Config, ring_entries: int = 1) -> Compiled:
    """Plan memory and write the program; raises LoweringError, MappingError, PlanError."""
    declared = list(_tensors(layers, batch, config))
    used = max(tensor.number for _, tensor in declared) + 1
    if used > config.n_tensors:
        raise LoweringError(f"{used} tensors need exponents, {config.name} has room for {config.n_tensors}")
    steps = list(_steps(layers))
    plan = MemoryPlan("program", "host", "state", "activations")
    plan.add("program", "program", (len(steps) + 1) * ALIGNMENT, ALIGNMENT)
    for group, tensor in declared:
        copies = ring_entries if tensor.name == "input" else 1
        plan.add(group, tensor.name, copies * _entry_bytes(tensor))
    plan.place(config.dram.capacity_bytes, config.dram.name, batch)
    tensors = {tensor.name: replace(tensor, address=plan[tensor.name].address) for _, tensor in declared}
    lines = [Line(header(config)), *(_line(step, layers, batch, config, tensors) for step in steps)]
    program = Program(with_waits(lines, config), plan["program"].address)
    return Compiled(tuple(layers), tensors, plan, program, _entry_bytes(tensors["input"]))


def _entry_bytes(tensor: Tensor) -> int:
    return -(-tensor.n_bytes // BLOCK_BYTES) * BLOCK_BYTES


def _tensors(layers: list[Layer], batch: int, config: Config) -> Iterator[tuple[str, Tensor]]:
    """All tensors and their group in memory, numbered."""
    operand, numbers = operand_type(config.operand_width), count()
    value = next(numbers)
    first = layers[0]
    yield "host", Tensor("input", (batch, first.h, first.w, first.c), operand, value)
    trained = _first_trained(layers)
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


def _first_trained(layers: list[Layer]) -> int:
    return next(place for place, layer in enumerate(layers) if layer.kind is Kind.GEMM)


@dataclass(frozen=True)
class _Step:
    """A command whose operands are still tensor names (by a, b, c, out)."""

    opcode: Opcode
    phases: Phase
    layer: int = 0
    operands: dict[str, str] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)


def _steps(layers: list[Layer]) -> Iterator[_Step]:
    """The commands of a batch after the header.

    Gradients of activations go before those of weights: a layer's weight gradient then keeps the array
    busy while the results that the next layer needs are on their way to memory and back.
    """
    values = ["input", *(f"{layer.name}.output" for layer in layers)]
    gradients = [f"{layer.name}.gradient" for layer in layers[:-1]] + ["loss.gradient"]
    for place, layer in enumerate(layers):
        yield _forward(layer, place, values[place], values[place + 1])
    yield _Step(Opcode.HOST, Phase.ALL)
    trained = _first_trained(layers)
    for place in range(len(layers) - 1, trained - 1, -1):
        layer = layers[place]
        if place > trained:
            masked = {"c": values[place]} if layers[place - 1].relu else {}
            yield _backward(layer, place, gradients[place], gradients[place - 1], masked)
        if layer.kind is Kind.GEMM:
            weight, gradient = f"{layer.name}.weight", f"{layer.name}.weight_gradient"
            yield _Step(
                Opcode.BACKWARD_WEIGHT, BACKPROPAGATION, place,
                {"a": values[place], "b": gradients[place], "out": gradient}, {"bias": int(layer.bias), "track": 1},
            )  # fmt: skip
            yield _Step(
                Opcode.UPDATE, BACKPROPAGATION, place,
                {"a": gradient, "b": weight, "c": f"{layer.name}.low", "out": f"{layer.name}.momentum"},
                {"count": layer.q * layer.filter_elements, "hyper": HYPER},
            )  # fmt: skip
    yield _Step(Opcode.COMMIT, Phase.TRAIN)
    yield _Step(Opcode.END, Phase.ALL)


def _forward(layer: Layer, place: int, source: str, result: str) -> _Step:
    fields = {"relu": int(layer.relu), "track": int(not layer.copies), **_constant(layer)}
    operands = {"a": source, "out": result}
    if layer.kind is Kind.GEMM:
        operands["b"], fields["bias"] = f"{layer.name}.weight", int(layer.bias)
    if layer.kind is Kind.MAXPOOL:
        operands["b"] = f"{layer.name}.index"
    opcode = {Kind.GEMM: Opcode.FORWARD, Kind.MAXPOOL: Opcode.MAXPOOL, Kind.AVGPOOL: Opcode.AVGPOOL}[layer.kind]
    return _Step(opcode, Phase.ALL, place, operands, fields)


def _backward(layer: Layer, place: int, source: str, result: str, masked: dict[str, str]) -> _Step:
    """The gradient of a layer's input from that of its output; zero where ``masked`` isn't positive."""
    fields = {"track": 1, "c_mode": int(CMode.MASK if masked else CMode.NONE), **_constant(layer)}
    operands = {"a": source, "out": result, **masked}
    if layer.kind is Kind.AVGPOOL:
        return _Step(Opcode.AVGPOOL_BACKWARD, BACKPROPAGATION, place, operands, fields)
    pool = layer.kind is Kind.MAXPOOL
    operands["b"] = f"{layer.name}.{'index' if pool else 'weight'}"
    opcode = Opcode.MAXPOOL_BACKWARD if pool else Opcode.BACKWARD_DATA
    return _Step(opcode, BACKPROPAGATION, place, operands, fields)


def _constant(layer: Layer) -> dict[str, int]:
    if layer.kind is not Kind.AVGPOOL:
        return {}
    mantissa, exponent = constant(layer.scale)
    return {"const_mantissa": mantissa, "const_exponent": exponent}


def _line(step: _Step, layers: list[Layer], batch: int, config: Config, tensors: dict[str, Tensor]) -> Line:
    """The step as a command: shapes, tile, addresses and numbers filled in."""
    fields = {"phase_mask": int(step.phases), "layer": step.layer, **step.fields}
    for operand, name in step.operands.items():
        ring = name == "input"  # its address is where the ring says
        fields[f"{operand}_addr"] = 0 if ring else tensors[name].address
        fields[f"{operand}_id"] = max(0, tensors[name].number)
        if ring:
            fields["ring"] = 1
    if not step.operands:
        return Line(Command(step.opcode, fields))
    name = layers[step.layer].name
    if step.opcode != Opcode.UPDATE:
        fields |= {"n": batch, **layers[step.layer].geometry()}
        fields |= choose_mapping(Command(step.opcode, fields), config, name).fields()
    return Line(Command(step.opcode, fields), name)
