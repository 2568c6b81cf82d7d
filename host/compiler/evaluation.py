"""A network's evaluation: its graph differs from that of training where dropout and the like do something else.

The machine has one program, so its layers must compute the same in both; what differs is the host's. An island in
evaluation computes its results from its inputs as the evaluating graph does.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from .capture import Captured, path_of, shape_of
from .island_function import IslandFunction
from .lowering import LoweringError
from .operator_sets import DROPOUT, IDENTITIES
from .operators import data_of, is_dropout
from .partition import Partition

__all__ = ["Evaluation"]

_ALIKE = {
    "_unsafe_view": "view", "reshape": "view",
    "_native_batch_norm_legit_functional": "batch_norm", "_native_batch_norm_legit_no_training": "batch_norm",
}  # fmt: skip
"""Operators by a common name that differ in training and in evaluation, but take the same operands."""


class Evaluation:
    """Counterparts of the training graph's values in the evaluating graph.

    Nodes of the same module and operator correspond in their order, if they are as many; what the host computes
    corresponds to what the evaluating graph has in its place. :meth:`unlike` checks the first and finds the second.
    """

    def __init__(self, training: Captured, evaluating: Captured):
        self.training, self.evaluating = training, evaluating
        if len(training.results) != len(evaluating.results):
            counts = len(training.results), len(evaluating.results)
            raise LoweringError(f"the network has {counts[0]} results in training and {counts[1]} in evaluation")
        self._alike: dict[Any, fx.Node] = dict(zip(training.inputs, evaluating.inputs, strict=True))
        one, other = _by_name(training), _by_name(evaluating)
        for key, nodes in one.items():
            if len(nodes) == len(other[key]):
                self._alike |= zip(nodes, other[key], strict=True)
        self._bound: dict[Any, fx.Node] = {}
        self._unlike: set[fx.Node] = set()
        self._dropouts: set[fx.Node] = set()

    def unlike(self, partition: Partition) -> set[fx.Node]:
        """Layers that compute something else in evaluation, or of something else; they must be the host's."""
        found: set[fx.Node] = set()
        host = set(partition.host)
        self._bound, self._unlike = {}, found
        # Evaluation has a dropout's operand in its place, or the host drops in both.
        self._dropouts = {node for node in partition.layers if is_dropout(node)}
        if always := self._dropouts.intersection(self._alike):
            return always
        for node in partition.layers:
            if node not in self._dropouts and not self._computes_alike(node, partition, host):
                found.add(node)
        for node, other in zip(self.training.results, self.evaluating.results, strict=True):
            if not self._same(node, other, partition, host):
                base = partition.bases[node][0]
                if base in host:
                    raise LoweringError(
                        f"{path_of(node) or 'the network'}: a result has another shape in evaluation, or is another's"
                    )
                found.add(base)
        for node in partition.host:  # what only the host reads
            like = self._alike.get(node)
            pairs = zip(_operands(node), _operands(like), strict=False) if like is not None else ()
            for mine, its in pairs:
                if mine in host and mine not in self._alike:
                    self._same(mine, its, partition, host)
        return found

    def _computes_alike(self, node: fx.Node, partition: Partition, host: set[fx.Node]) -> bool:
        other = self._alike.get(node)
        return other is not None and self._operate_alike(node, other, partition, host)

    def _operate_alike(self, node: fx.Node, other: fx.Node, partition: Partition, host: set[fx.Node]) -> bool:
        mine, its = _operands(node), _operands(other)
        alike = _name(node) == _name(other) and len(mine) == len(its) and _constants(node) == _constants(other)
        return alike and all(self._same(one, two, partition, host) for one, two in zip(mine, its, strict=True))

    def _same(self, node: fx.Node, other: fx.Node, partition: Partition, host: set[fx.Node]) -> bool:
        """True if a value is another of the evaluating graph; one of the host becomes it."""
        if node not in host:
            node = _undropped(node, self._dropouts)
        other = _plain(other)
        if node in host:
            return _shape(node) == _shape(other) and self._bound.setdefault(node, other) is other
        if node in self._unlike:  # to be seen when it is the host's
            return True
        if node in partition.layers or node in self.training.inputs:
            return self._alike.get(node) is other
        if node.op == "placeholder" or other.op == "placeholder":
            return node.op == other.op and _stored(self.training, node) == _stored(self.evaluating, other)
        return self._operate_alike(node, other, partition, host)

    def function(self, trained: IslandFunction) -> IslandFunction:
        """An island's computation with that of its evaluation."""

        def counterpart(node: fx.Node | None) -> fx.Node | None:
            if node in self._dropouts:
                node = _undropped(node, self._dropouts)
            found = self._bound.get(node, self._alike.get(node))
            return found if found is not None and _shape(found) == _shape(node) else None

        inputs, outputs = [[counterpart(node) for node in nodes] for nodes in (trained.inputs, trained.outputs)]
        stops, ahead = {*inputs}, [node for node in outputs if node is not None]
        inside: set[fx.Node] = set()
        while ahead:
            node = ahead.pop()
            if node not in inside and node not in stops:
                inside.add(node)
                ahead += node.all_input_nodes
        its = self.evaluating
        stored = {node: _stored(its, node) for node in inside if node.op == "placeholder"}
        names = {*trained.parameters.values()}
        for node, name in stored.items():
            frozen = name in its.frozen or name in its.buffers.values() or node.name in its.constants
            if name not in names and not frozen:
                where = next((path_of(step) for step in trained.steps if path_of(step)), "the network")
                raise LoweringError(f"{where}: it needs {name} in evaluation, but not in training")
        return replace(trained, evaluation=IslandFunction(
            tuple(node for node in its.nodes if node in inside and node.op != "placeholder"),
            tuple(inputs), tuple(outputs),
            {node: name for node, name in stored.items() if name in names},
            {node: name for node, name in stored.items() if name not in names and node.name not in its.constants},
            {node: its.constants[node.name] for node in stored if node.name in its.constants}, {},
        ))  # fmt: skip


def _by_name(captured: Captured) -> dict[tuple, list[fx.Node]]:
    """The nodes that results depend on, by module, operator, names of parameters and dropout's rate, in order."""
    live: set[fx.Node] = set()
    ahead: list[fx.Node] = list(captured.results)
    while ahead:
        node = ahead.pop()
        if node not in live:
            live.add(node)
            ahead += node.all_input_nodes
    found: dict[tuple, list[fx.Node]] = defaultdict(list)
    for node in captured.nodes:
        if node in live and node.op == "call_function" and node.target not in IDENTITIES:
            weights = tuple(captured.parameters.get(each.name, "") for each in node.all_input_nodes)
            place = node.args[1] if _name(node) == "getitem" else None
            drawn: Any = node.args[0] if is_dropout(node) else node
            rate = drawn.args[1] if drawn.target is DROPOUT else None
            found[path_of(node), _name(node), tuple(filter(None, weights)), place, rate].append(node)
    return found


def _name(node: fx.Node) -> str:
    name = str(getattr(node.target, "_opname", getattr(node.target, "__name__", node.target)))
    return _ALIKE.get(name, name)


def _constants(node: fx.Node) -> str:
    """Arguments that are no nodes; of batch norm's it is known which of its forms takes which."""
    if _name(node) == "batch_norm":
        return ""
    return repr(fx.node.map_arg((node.args, dict(node.kwargs)), lambda _: None))


def _operands(node: fx.Node) -> list[fx.Node]:
    found: list[fx.Node] = []

    def note(each: fx.Node) -> fx.Node:
        found.append(each)
        return each

    fx.node.map_arg((node.args, dict(node.kwargs)), note)
    return found


def _plain(node: fx.Node) -> fx.Node:
    """The node that an identity is of."""
    while node.target in IDENTITIES:
        node = node.all_input_nodes[0]
    return node


def _undropped(node: Any, dropouts: set[fx.Node]) -> fx.Node:
    """The node that identities and the machine's dropouts are of in evaluation."""
    while node.target in IDENTITIES or node in dropouts:
        node = data_of(node)[0]
    return node


def _shape(node: Any) -> Sequence[int] | None:
    return shape_of(node) if isinstance(node.meta.get("val"), torch.Tensor) else None


def _stored(captured: Captured, node: fx.Node) -> str:
    """The name of a placeholder's tensor in the state dict, or its own."""
    return captured.parameters.get(node.name) or captured.buffers.get(node.name) or node.name
