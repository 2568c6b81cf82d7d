"""The machine's graph of a network: layers and islands in topological order, each with the values that it reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from .islands import Island
from .joins import Join, Node, Part
from .lowering import Kind, Layer
from .products import Product
from .tensors import INPUT, layer_tensor
from .values import Value

__all__ = ["Graph", "as_graph", "chain", "outputs"]


@dataclass(frozen=True)
class Graph:
    """A network as layers, which the machine computes, islands, which the host computes, and joins of their results.

    ``nodes`` are in topological order. ``values`` are by name, the ``inputs`` among them. ``results`` are those that
    the loss is of, each with the name of its value and with the shape that torch's module gives. ``parts`` are values
    that lie in a join's.
    """

    nodes: tuple[Node, ...]
    values: dict[str, Value]
    results: tuple[Value, ...]
    inputs: tuple[str, ...] = (INPUT,)
    parts: dict[str, Part] = field(default_factory=dict)
    producers: dict[str, Node] = field(init=False, repr=False)

    def __post_init__(self):
        producers = {name: node for node in self.nodes for name in outputs(node)}
        object.__setattr__(self, "producers", producers)

    @cached_property
    def layers(self) -> list[Layer]:
        """The nodes that the machine computes."""
        return [node for node in self.nodes if isinstance(node, Layer)]

    @property
    def calibrates_apart(self) -> bool:
        """True if several commands write one tensor, so that the batch that calibrates has a program of its own."""
        return bool(self.parts or self.products or any(each.groups > 1 or each.inside for each in self.layers))

    def numbered(self, name: str) -> str:
        """The tensor that has a tensor's number: its whole if it is a part of a join."""
        return self.parts[name].of if name in self.parts else name

    @property
    def products(self) -> list[Product]:
        """The products of two values, which the machine computes too."""
        return [node for node in self.nodes if isinstance(node, Product)]

    @property
    def islands(self) -> list[Island]:
        """The nodes that the host computes."""
        return [node for node in self.nodes if isinstance(node, Island)]

    def masks(self, value: str) -> bool:
        """True if the value is a ReLU's result, so that its gradient is zero where it isn't positive."""
        producer = self.producers.get(value)
        return isinstance(producer, Layer) and producer.relu

    def clamped(self, value: str) -> Layer | None:
        """The layer whose ReLU gives the value and has a bound or a slope, which its gradient's mask needs too."""
        producer = self.producers.get(value)
        return producer if isinstance(producer, Layer) and producer.clamps else None

    def copies(self, layer: Layer) -> bool:
        """True if a layer's result has its input's exponent; in a join the whole's exponent belongs to all parts."""
        joined = {*self.parts, *(part.of for part in self.parts.values())}
        return layer.copies and not joined & {layer.inputs[0], layer.output}

    def describe(self) -> str:
        """One line a node: where it runs, its name, shapes, multiplications of a batch's forward pass, bytes."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for node in self.nodes:
            elements = sum(prod(self.values[name].shape) for name in (*node.inputs, *outputs(node)))
            shapes = [" ".join(str(list(self.values[name].shape)) for name in names)
                      for names in (node.inputs, outputs(node))]  # fmt: skip
            if isinstance(node, Join):
                macs, elements, what = 0, 0, f"device {node.name} join"
            elif isinstance(node, Product):
                macs, what = node.macs, f"device {node.name} product"
            elif isinstance(node, Layer):
                macs = (
                    prod(self.values[node.output].memory_shape) * (node.filter_elements - 1)
                    if node.weighted and node.kind is not Kind.NORM
                    else 0
                )
                groups = f" in {node.groups} groups" if node.groups > 1 else ""
                what = f"device {node.name} {node.kind.value}{groups}{' ' * node.relu}{node.activation}"
            else:
                macs, what = 0, f"host   {node.name} {' '.join(node.operators)}"
            yield f"{what}: {shapes[0]} -> {shapes[1]}, {macs} MACs, {2 * elements} bytes"


def outputs(node: Node) -> tuple[str, ...]:
    """Names of the values that a node computes."""
    return node.outputs if isinstance(node, Island) else (node.output,)


def chain(layers: Sequence[Layer], batch: int = 1, flat: bool = False) -> Graph:
    """The graph of layers of which each reads the result of the one before; ``flat``: its result has no dimensions
    but the batch and the channels."""
    first = layers[0]
    values = {INPUT: Value(INPUT, (batch, first.c, first.h, first.w))}
    value, linked = INPUT, []
    for layer in layers:
        linked.append(replace(layer, inputs=(value,)))
        value = layer_tensor(layer, "output")
        values[value] = Value(value, (batch, layer.q, layer.oh, layer.ow))
    shape = values[value].shape
    result = Value(value, (batch, prod(shape[1:])) if flat else shape)
    return Graph(tuple(linked), values, (result,))


def as_graph(network: "Graph | Sequence[Layer]", batch: int = 1) -> Graph:
    """A graph as it is, a list of layers as a chain."""
    return network if isinstance(network, Graph) else chain(network, batch)
