"""Concatenations along channels, which cost no command: the parts lie in the whole's memory, a pitch apart.

All parts of a whole have its tensor number, so they have one exponent: each producer writes at it, and each takes part
in its commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from .islands import Island
from .lowering import Kind, Layer
from .products import Product
from .values import Value, output_name

__all__ = ["Join", "Part", "Placed", "firsts", "placed"]


@dataclass(frozen=True)
class Join:
    """A concatenation of values along their channels."""

    name: str
    inputs: tuple[str, ...]
    parameters: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """Name of the value that it makes."""
        return output_name(self.name)


@dataclass(frozen=True)
class Part:
    """A run of channels of the value or tensor ``of``, from the ``first`` on."""

    of: str
    first: int

    def inside(self, parts: Mapping[str, "Part"]) -> "Part":
        """The same in the memory that it lies in, if its own whole is a part too."""
        outer = parts.get(self.of)
        return self if outer is None else Part(outer.of, outer.first + self.first).inside(parts)


Node = Layer | Island | Join | Product


@dataclass
class Placed:
    """Nodes with the copies that joins need, all values, and the parts of values, each of one that is no part."""

    nodes: list[Node]
    values: dict[str, Value]
    parts: dict[str, Part]


def firsts(join: Join, values: Mapping[str, Value]) -> list[int]:
    """The first channel of each of a join's inputs."""
    return [0, *accumulate(values[name].memory_shape[-1] for name in join.inputs)][:-1]


def placed(nodes: Sequence[Node], values: Mapping[str, Value]) -> Placed:
    """Give all inputs of joins a place in a whole, the largest first.

    A layer writes to its place, but a MAXPOOL doesn't, for its index would lie there too, nor an average whose borders
    are changed in place. An input of another kind, or one that has a place elsewhere or is a product's operand, is
    copied.
    """
    found = Placed([], dict(values), {})
    producers = {node.output: node for node in nodes if not isinstance(node, Island)}
    multiplied = {name for node in nodes if isinstance(node, Product) for name in node.inputs}
    copies: dict[str, list[Layer]] = {}
    joins = _nested([node for node in nodes if isinstance(node, Join)])
    changed = {}
    for join in reversed(joins):
        inputs = []
        for number, (name, first) in enumerate(zip(join.inputs, firsts(join, values), strict=True)):
            producer = producers.get(name)
            writes = isinstance(producer, Join) or (
                isinstance(producer, Layer) and producer.kind is not Kind.MAXPOOL and not producer.inside
            )
            if not writes or name in found.parts or name in multiplied:
                copy = _copy(f"{join.name}.copy{number}", values[name])
                found.values[copy.output] = replace(values[name], name=copy.output)
                copies.setdefault(join.name, []).append(replace(copy, inputs=(name,)))
                name = copy.output
            found.parts[name] = Part(join.output, first)
            inputs.append(name)
        changed[join.name] = replace(join, inputs=tuple(inputs))
    found.parts = {name: part.inside(found.parts) for name, part in found.parts.items()}
    for node in nodes:
        found.nodes += copies.get(node.name, [])
        found.nodes.append(changed.get(node.name, node))
    return found


def _nested(joins: Sequence[Join]) -> list[Join]:
    """Joins that begin as an earlier one does take that one's result, the longest, as their first input.

    A dense block that joins all earlier results anew in each of its layers then has one whole.
    """
    leaves: dict[str, tuple[str, ...]] = {}
    done: list[Join] = []
    for join in joins:
        mine = tuple(leaf for name in join.inputs for leaf in leaves.get(name, (name,)))
        before = [each for each in done if leaves[each.output] == mine[: len(leaves[each.output])]]
        longest = max(before, key=lambda each: len(leaves[each.output]), default=None)
        if longest is not None and longest.output != join.inputs[0] and len(leaves[longest.output]) < len(mine):
            join = replace(join, inputs=(longest.output, *mine[len(leaves[longest.output]) :]))
        leaves[join.output] = mine
        done.append(join)
    return done


def _copy(name: str, value: Value) -> Layer:
    """A layer that copies a value."""
    _, h, w, c = value.memory_shape
    return Layer(Kind.AVGPOOL, name, c, h, w, c, h, w)
