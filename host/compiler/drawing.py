"""A graph as a drawing in Graphviz' language."""

from collections.abc import Iterator

from ...spec.dropout import PROBABILITY_BITS
from .graph import Graph, outputs
from .islands import Island
from .joins import Join, Node
from .lowering import Kind
from .products import Product

__all__ = ["dot"]

DEVICE, HOST, OUTER = "lightblue", "orange", "white"
"""Colours of what the machine computes, of what the host computes, and of the network's inputs and result."""
SHOWN = 4
"""Operators of an island that its box names."""


def dot(graph: Graph, title: str) -> str:
    """The text of a drawing: a box for each layer and island, an arrow with its shape for each value that they read."""
    lines = [f"  label={_quoted(title)}; labelloc=t; node [shape=box, style=filled, fontname=sans];"]
    lines += [_box(name, name, OUTER, "shape=ellipse, ") for name in graph.inputs]
    lines += [_box(node.name, _label(node), HOST if isinstance(node, Island) else DEVICE) for node in graph.nodes]
    lines += [_box(name, name, OUTER, "shape=ellipse, ") for name in _results(graph)]
    lines += [
        f"  {_quoted(source)} -> {_quoted(target)} [label={_quoted(shape)}];"
        for source, target, shape in _arrows(graph)
    ]
    return "\n".join(["digraph network {", *lines, "}"]) + "\n"


def _arrows(graph: Graph) -> Iterator[tuple[str, str, str]]:
    """Producer, consumer and shape of each value that is read."""
    producers = {name: name for name in graph.inputs}
    producers |= {name: node.name for node in graph.nodes for name in outputs(node)}
    reads = [(name, node.name, graph.values[name].shape) for node in graph.nodes for name in node.inputs]
    reads += [(value.name, name, value.shape) for value, name in zip(graph.results, _results(graph), strict=True)]
    for name, target, shape in reads:
        yield producers[name], target, "x".join(map(str, shape))


def _results(graph: Graph) -> list[str]:
    """Names of the network's results in the drawing."""
    return ["result" + (f" {number}" if number else "") for number in range(len(graph.results))]


def _label(node: Node) -> str:
    if isinstance(node, Join):
        return f"{node.name}\njoin"
    if isinstance(node, Product):
        return f"{node.name}\n{len(node.places[0].firsts)} of {node.rows}x{node.inner}x{node.columns}"
    if isinstance(node, Island):
        more = len(node.operators) - SHOWN
        rest = [f"and {more} more"] if more > 0 else []
        return "\n".join([node.name, "host:", *node.operators[:SHOWN], *rest])
    elementwise = node.kind is Kind.AVGPOOL and node.r * node.s == 1
    words = ["add"] * (len(node.inputs) > 1) if elementwise else [node.kind.value, f"{node.r}x{node.s}"]
    if node.kind is Kind.DROPOUT:
        words = [f"dropout {node.drop / (1 << PROBABILITY_BITS):.4g}"]
    words += [f"in {node.groups} groups"] * (node.groups > 1)
    words += [f"stride {node.stride}"] * (node.stride > 1) + [node.activation] * node.relu
    return f"{node.name}\n{' '.join(words)}"


def _box(name: str, label: str, colour: str, more: str = "") -> str:
    return f"  {_quoted(name)} [{more}fillcolor={colour}, label={_quoted(label)}];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
