"""Reasons why the host computes operators, and what GP batches don't train, in words."""

from collections.abc import Iterable, Mapping

from torch import fx

from .capture import operator_of
from .decompositions import WITH_PRODUCTS
from .islands import Island
from .operator_sets import BATCH_NORM, DROPOUT, VIEWS
from .operators import data_of, handled, is_dropout, is_norm
from .partition import Partition

__all__ = ["by_reason", "host_reasons", "why_on_host"]

NAMED = 4
"""Names up to which a text has each."""


def why_on_host(node: fx.Node, partition: Partition) -> str:
    """The reason why the host computes a node."""
    results = [node, *(user for user in node.users if is_norm(user) or is_dropout(user))]
    for each in results:
        if each in partition.reasons:
            return partition.reasons[each]
    if node.target is BATCH_NORM and not partition.config.batch_norm:
        return "without the switch batch_norm"
    if node.target is DROPOUT and not partition.config.dropout:
        return "without the switch dropout"
    if node.target in WITH_PRODUCTS and not partition.config.matmul:
        return "without the switch matmul"
    if node.target in VIEWS and (reader := _reader(node, partition)) is not None:
        return f"it rearranges values for {operator_of(reader)}, which can't read them as they are"
    if operator_of(node) == "batch_norm":
        return "it keeps no running statistics"
    if node.target not in WITH_PRODUCTS and not any(handled(each) for each in results):
        return "the machine has no such operator"
    if any(isinstance(each, fx.Node) and each in partition.host for each in data_of(node)):
        return "it stands between operators that the host computes"
    return "its input or its weight is rearranged or computed in a way that the machine can't read"


def _reader(node: fx.Node, partition: Partition) -> fx.Node | None:
    """An operator of the machine that reads a node's result."""
    readers = (layer for layer in partition.layers if node in partition.operands(layer))
    return next((partition.products.own.get(layer, layer) for layer in readers), None)


def host_reasons(islands: Iterable[Island]) -> list[str]:
    """Operators of islands with the reasons why the host computes them, each pair once."""
    names: dict[tuple[str, str], list[str]] = {}
    for island in islands:
        for operator, place, why in island.reasons:
            names.setdefault((operator, why), []).append(place)
    return [f"{operator} in {_some(each)}: {why}" for (operator, why), each in names.items()]


def by_reason(reasons: Mapping[str, str]) -> list[str]:
    """Names with their reasons, each reason once; of more than NAMED names the first, and how many follow."""
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(name)
    return [f"{_some(each)} ({why})" for why, each in names.items()]


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= NAMED else f"{names[0]} and {len(names) - 1} more"
