"""A network's tensors: their numbers in the exponent table, their groups in memory, and those within others."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

import numpy as np

from ...spec.config import Config
from ...spec.norm import BACKWARD_ROW, FORWARD_ROW, GRADIENT_PLANES, STATE_ROW, SUMS_ROW, planes
from .batch import Batch
from .graph import Graph
from .islands import Island
from .joins import Join, Part
from .lowering import Kind, Layer
from .products import Product
from .quantise import operand_type
from .tensors import Tensor, joining, layer_tensor, loss_gradient

__all__ = ["declarations"]


def declarations(
    graph: Graph, work: Batch, config: Config, lives: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[str, Tensor]]:
    """All tensors but the gradient source's, with their group in memory; "" for those that lie in another or nowhere.

    Gradients that the host writes share numbers if their ``lives`` don't meet: it sets the exponent anew each time.
    """
    own = _Numbered(graph, work, operand_type(config.operand_width))
    for name in graph.inputs:
        yield own.value("host", name)
    for node in graph.nodes:
        if isinstance(node, Join) and node.output not in graph.parts:
            yield own.value("activations", node.output)
    for node in graph.nodes:
        if isinstance(node, Island):
            yield from (own.value("activations", name) for name in node.outputs)
        elif node.output in graph.parts:
            yield own.part(node.output, node.output, graph.parts[node.output].of)
        elif isinstance(node, Layer):
            yield own.value("activations", node.output, copied=node.inputs[0] if graph.copies(node) else "")
        elif isinstance(node, Product):
            yield own.value("activations", node.output)
        if isinstance(node, Layer):
            yield from own.of_layer(node)
    written = {name for stop in work.stops if stop.kind == "backward" for name in stop.writes}
    holder: dict[int, str] = {}  # the last gradient written by the host, by number
    for name, of in work.gradients.items():
        free = (last for last in holder.values() if name in written and lives[last][1] < lives[name][0])
        if name in work.stacked:
            yield own.part(name, of, "")
        else:
            group, tensor = own.value("activations", name, of, copied=next(free, ""))
            yield group, replace(tensor, pitch=work.gapped.get(name, 0))
        if name in written:
            holder[own.number[name]] = name
    for name, layer in work.pieces.items():
        yield "activations", Tensor(name, (layer.q, layer.filter_elements), own.operand, next(own.numbers))
    for place, result in enumerate(graph.results):
        yield own.value("host", loss_gradient(place), result.name)
    for name, of in work.sliced.items():
        yield own.part(name, of, work.slices[name].of)
    for whole in dict.fromkeys(part.of for part in graph.parts.values()):
        yield "", Tensor(joining(whole), (), own.operand, next(own.numbers))


class _Numbered:
    """Tensors with the numbers given out so far."""

    def __init__(self, graph: Graph, work: Batch, operand: np.dtype):
        self.graph, self.operand, self.numbers = graph, operand, count()
        self.number: dict[str, int] = {}
        self.shapes = {name: value.memory_shape for name, value in graph.values.items()}
        self.gapped = work.gapped
        self.parts: dict[str, Part] = {**graph.parts, **work.slices, **work.stacked}

    def value(self, group: str, name: str, of: str = "", copied: str = "") -> tuple[str, Tensor]:
        """A tensor of the shape of the value ``of``; one that is ``copied`` keeps the other's exponent."""
        self.number[name] = self.number[copied] if copied else next(self.numbers)
        self.shapes[name] = self.shapes[of or name]
        return group, Tensor(name, self.shapes[name], self.operand, self.number[name])

    def part(self, name: str, of: str, numbered: str) -> tuple[str, Tensor]:
        """A tensor within another, with the number of ``numbered`` or one of its own."""
        self.number[name] = self.number[numbered] if numbered else next(self.numbers)
        self.shapes[name] = self.shapes[of]
        place = self.parts[name].inside(self.parts)
        pitch = self.gapped.get(place.of, self.shapes[place.of][-1])
        return "", Tensor(
            name, self.shapes[of], self.operand, self.number[name], pitch=pitch, whole=place.of, first=place.first
        )

    def of_layer(self, layer: Layer) -> Iterator[tuple[str, Tensor]]:
        """A layer's index or weights."""
        if layer.kind is Kind.MAXPOOL:
            yield "activations", Tensor(layer_tensor(layer, "index"), self.shapes[layer.output], self.operand, -1)
        if layer.weighted:
            rows = gradient = layer.weight_shape
            if layer.kind is Kind.NORM:
                gradient = (GRADIENT_PLANES + planes(BACKWARD_ROW), layer.c)  # and constants that are made with it
                for part, row in (("statistics", STATE_ROW), ("sums", SUMS_ROW), ("constants", FORWARD_ROW)):
                    yield "state", Tensor(layer_tensor(layer, part), (planes(row), layer.c), self.operand, -1)
            yield "state", Tensor(layer_tensor(layer, "weight"), rows, self.operand, next(self.numbers))
            yield "state", Tensor(layer_tensor(layer, "low"), rows, np.dtype("<i2"), -1)
            yield "state", Tensor(layer_tensor(layer, "momentum"), rows, np.dtype("<i4"), next(self.numbers))
            yield "state", Tensor(layer_tensor(layer, "weight_gradient"), gradient, self.operand, next(self.numbers))
