"""Islands of a partition: which of the host's nodes it computes at one stop."""

from collections.abc import Container, Iterable
from typing import Protocol

from torch import fx

__all__ = ["island_groups"]


class _Partition(Protocol):
    """A partition's knowledge of its nodes."""

    host: list[fx.Node]
    order: dict[fx.Node, int]

    @property
    def layers(self) -> Container[fx.Node]: ...

    def sources(self, nodes: Iterable[fx.Node]) -> set[fx.Node]: ...

    def operands(self, node: fx.Node) -> list[fx.Node]: ...


def island_groups(partition: _Partition) -> list[list[fx.Node]]:
    """The host's nodes in islands: neighbours are together if no path between them leaves."""
    owner: dict[fx.Node, list[fx.Node]] = {}
    for node in partition.host:
        neighbours = []
        for each in partition.sources([node]):
            island = owner.get(each)
            if island is not None and island not in neighbours:
                neighbours.append(island)
        neighbours.sort(key=lambda island: -partition.order[island[-1]])
        choices = [neighbours, *([island] for island in neighbours)] if len(neighbours) > 1 else [neighbours]
        for chosen in choices:
            members = sorted([*(each for island in chosen for each in island), node], key=partition.order.__getitem__)
            if not chosen or not _returns(partition, members, owner):
                break
        else:
            members = [node]
        for each in members:
            owner[each] = members
    found = []
    for node in partition.host:
        if owner[node][0] is node:
            found.append(owner[node])
    return found


def _returns(partition: _Partition, members: list[fx.Node], owner: dict[fx.Node, list[fx.Node]]) -> bool:
    """True if a path leaves the members and comes back."""
    inside, first = set(members), partition.order[members[0]]
    ahead = [each for each in partition.sources(members) if each not in inside]
    seen: set[fx.Node] = set()
    while ahead:
        node = ahead.pop()
        if node in inside:
            return True
        if node in seen or node.op == "placeholder":
            continue
        group = owner.get(node, [node])
        seen.update(group)
        if partition.order[group[-1]] > first:
            ahead += partition.sources(group) if node not in partition.layers else partition.operands(node)
    return False
