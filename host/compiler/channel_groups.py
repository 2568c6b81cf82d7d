"""Convolutions in groups: a command for each group, which reads and writes its own channels by address.

Steps of such a layer are made as those of any other, and cut into groups at the end. Updates and predictions, which
only know filters, stay whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...spec.commands import Opcode
from ...spec.opcodes import GEMMS
from .graph import Graph
from .ir import Step
from .islands import Stop
from .lowering import Layer
from .tensors import Tensor, joining
from .window_sums import SUMS

__all__ = ["by_group", "group_part", "tensors_of_groups"]


def by_group(items: Iterable[Step | Stop], layers: Sequence[Layer], batch: int) -> Iterator[Step | Stop]:
    """The same with a step for each group of a layer in groups.

    A FORWARD and the REORGANISE of its sums become pairs, as the drain has the sums of one command.
    """
    ahead, place = list(items), 0
    while place < len(ahead):
        step = ahead[place]
        place += 1
        if not isinstance(step, Step) or not _of_layer(step) or (layer := layers[step.layer]).groups == 1:
            yield step
            continue
        pair = [step]
        while place < len(ahead) and isinstance(after := ahead[place], Step) and after.opcode == Opcode.REORGANISE:
            pair.append(after)
            place += 1
        for group in range(layer.groups):
            yield from (_of_group(each, layer, group, batch) for each in pair)


def _of_layer(step: Step) -> bool:
    """True if a step is a layer's own product."""
    return step.opcode in GEMMS and step.product is None and not step.fields.get("predictor")


def _of_group(step: Step, layer: Layer, group: int, batch: int) -> Step:
    c, q = layer.c // layer.groups, layer.q // layer.groups
    x, y, filters = group * c, group * q, group * q * layer.filter_elements
    firsts = {
        Opcode.FORWARD: {"a": x, "b": filters, "c": y, "out": y},
        Opcode.BACKWARD_DATA: {"a": y, "b": filters, "c": x, "d": x, "out": x},
        Opcode.BACKWARD_WEIGHT: {"a": x, "b": y, "c": filters, "out": filters},
        Opcode.REORGANISE: {"c": y * SUMS, "out": y * SUMS},
    }[step.opcode]
    if step.opcode == Opcode.REORGANISE:
        c = q = q * SUMS
    shape = {**(step.shape or {"n": batch, **layer.geometry()}), "c": c, "q": q}
    offsets = {operand: step.offsets.get(operand, 0) + firsts[operand] for operand in step.operands}
    return replace(step, shape=shape, offsets=offsets, group=group)


def group_part(step: Step) -> str:
    """Name of the part that a step of a group writes."""
    return f"{step.operands['out']}.group{step.group}"


def tensors_of_groups(
    graph: Graph, steps: Iterable[Step], tensors: Mapping[str, Tensor], number: int
) -> Iterator[Tensor]:
    """The parts that groups write, for the batch that calibrates, and numbers that it needs, from ``number`` on.

    ``tensors``: the network's others by name.
    """
    found: dict[str, Tensor] = {}
    for step in steps:
        if step.group is None or step.opcode not in GEMMS:
            continue
        written, layer = tensors[step.operands["out"]], graph.layers[step.layer]
        width = step.shape["c" if step.opcode == Opcode.BACKWARD_DATA else "q"] if step.shape else 0
        shape, pitch = (*written.shape[:-1], width), written.pitch or written.shape[-1]
        if step.opcode == Opcode.BACKWARD_WEIGHT:
            shape = (width, layer.filter_elements)
        found[group_part(step)] = replace(
            written, name=group_part(step), shape=shape, pitch=pitch, whole=written.whole or written.name,
            first=written.first + step.offsets["out"],
        )  # fmt: skip
        apart = joining(graph.numbered(written.name))
        if apart not in tensors and apart not in found:
            found[apart] = Tensor(apart, (), written.dtype, number)
            number += 1
    yield from found.values()
