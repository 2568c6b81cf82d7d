"""Partition of captured operators: those of the machine, those of the host in islands, and those that only arrange.

Operators that the host can repeat (views, and what depends on integers or constants alone, such as masks) belong to
every island that uses them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from ...spec.config import Config
from .capture import Captured, path_of, shape_of
from .island_groups import island_groups
from .lowering import Layer
from .module_checks import READS_INPUT, Refused
from .operator_sets import BATCH_NORM, DROPOUT, IDENTITIES, MOVING, RELUS, VIEWS, WEIGHTED
from .operators import data_of, is_dropout, is_norm, layer_of, weights_of
from .product_operands import ProductOperands
from .values import Value
from .weight_parts import rows_of

__all__ = ["Partition"]

_CAT = torch.ops.aten.cat.default
_ELEMENTWISE = (*RELUS, torch.ops.aten.add.Tensor, _CAT)
_RANDOM = torch.Tag.nondeterministic_seeded


class Partition:
    """Who computes each node.

    Attributes
    ----------
    layers: nodes that the machine computes, with their geometry
    islands: the host's nodes, in lists
    reasons: why the host computes operators that the machine has in other forms
    counters: nodes that change a buffer and depend on no value, by the first node of the island that they belong to
    """

    def __init__(self, captured: Captured, batch: int, config: Config, hosted: Mapping[fx.Node, str] | None = None):
        self.captured, self.batch, self.config, self.hosted = captured, batch, config, hosted or {}
        calls = [node for node in captured.nodes if node.op == "call_function"]
        self.order = {node: place for place, node in enumerate(captured.nodes)}
        live = self._live()
        self.layers: dict[fx.Node, Layer] = {}
        self.reasons: dict[fx.Node, str] = {}
        self.bases: dict[Any, tuple[fx.Node, bool, tuple[int, ...]]] = {  # fx has no type for arguments that are nodes
            node: (node, False, shape_of(node)) for node in captured.inputs
        }
        self.repeated: set[fx.Node] = set()
        self.host: list[fx.Node] = []
        self.norms: set[fx.Node] = set()
        self.products = ProductOperands(self)
        self._dropouts: set[fx.Node] = set()
        self._from_input: set[fx.Node] = set(captured.inputs)
        self._trainable = {node for node in captured.nodes if node.name in captured.parameters}
        self._real = {node for node in captured.inputs if node.meta["val"].dtype.is_floating_point}
        for node in calls:
            if node in live:
                self._classify(node)
        for result in captured.results:
            if result not in self.bases or self.bases[result][0].op == "placeholder":
                self.to_host(result)
        self._absorb()
        self.islands = island_groups(self)
        self.counters = self._counters()

    def base(self, node: fx.Node) -> tuple[fx.Node, bool, tuple[int, ...]] | None:
        """The node whose result lies in memory as this one's, if it is flattened, and the shape that decides how."""
        return self.bases.get(node)

    def operands(self, node: fx.Node) -> list[fx.Node]:
        """The values in memory that a layer reads."""
        return self.products.sources.get(node) or [self.bases[arg][0] for arg in data_of(node)]

    def closure(self, nodes: Iterable[fx.Node]) -> set[fx.Node]:
        """The nodes with all repeated ones that they use."""
        found, ahead = set(), list(nodes)
        while ahead:
            node = ahead.pop()
            if node not in found:
                found.add(node)
                ahead += [each for each in node.all_input_nodes if each in self.repeated]
        return found

    def sources(self, nodes: Iterable[fx.Node]) -> set[fx.Node]:
        """Nodes outside, placeholders included, that these nodes and the repeated ones that they use read."""
        inside = self.closure(nodes)
        return {each for node in inside for each in node.all_input_nodes if each not in inside}

    def users(self, node: fx.Node) -> set[fx.Node]:
        """Nodes that use a result, directly or by repeated ones; the network's result counts as a user."""
        found: set[fx.Node] = set()
        for user in node.users:
            found |= self.users(user) if user in self.repeated else {user}
        return found

    # --- who computes a node ------------------------------------------------------------------------

    def _live(self) -> set[fx.Node]:
        """Nodes that the result or a buffer depends on."""
        found, ahead = set(), list(self.captured.results)
        ahead += [node for node in self.captured.nodes if node.name in self.captured.mutated]
        while ahead:
            node = ahead.pop()
            if node not in found:
                found.add(node)
                ahead += node.all_input_nodes
        return found

    def _classify(self, node: fx.Node) -> None:
        inputs = node.all_input_nodes
        for kind in (self._from_input, self._trainable, self._real):
            if any(each in kind for each in inputs):
                kind.add(node)
        random = isinstance(node.target, torch._ops.OpOverload) and _RANDOM in node.target.tags
        if random or node.target is DROPOUT:
            self._real.add(node)
        if self.products.classify(node):
            return
        views = node.target in VIEWS or (
            getattr(node.target, "__name__", "") == "getitem" and inputs[0] in self.repeated
        )
        if views or (node not in self._real and not (node in self._trainable and node in self._from_input)):
            moving = node.name in self.captured.mutated and node in self._from_input
            self.to_host(node) if moving else self._repeat(node)
            return
        if node.target in (BATCH_NORM, DROPOUT) and self._is_layer(node):
            # Its results are getitem's: the first is a layer, the others are the device's state, or aren't used.
            (self.norms if node.target is BATCH_NORM else self._dropouts).add(node)
            return
        if inputs[0] in self.norms and node.args[1] != 0:
            return
        layer = self._layer(node)
        if layer is None or node.name in self.captured.mutated:
            self.to_host(node)
            return
        self.layers[node] = layer
        _, flat, shape = self.bases[data_of(node)[0]]
        alike = node.target in RELUS or is_dropout(node)
        self.bases[node] = (node, flat, shape) if alike else (node, False, shape_of(node))

    def _is_layer(self, node: fx.Node) -> bool:
        """True if the machine computes a batch norm or a dropout."""
        results = [each for each in node.users if each.args[1] == 0 or node.target is DROPOUT]
        return len(results) == 1 and self._layer(results[0]) is not None

    def to_host(self, node: fx.Node) -> None:
        """Let the host compute a node."""
        self.repeated.discard(node)
        self.layers.pop(node, None)
        self.host.append(node)
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            self.bases[node] = (node, False, tuple(value.shape))

    def _repeat(self, node: fx.Node) -> None:
        """The host repeats the node; it may also be another name of its operand's memory."""
        self.repeated.add(node)
        before = self.bases.get(node.args[0]) if node.args and isinstance(node.args[0], fx.Node) else None
        if before is None or node.target not in VIEWS or not isinstance(node.meta["val"], torch.Tensor):
            return
        root, flat, shape = before
        mine, seen = shape_of(node), shape_of(node.args[0])
        if node.target in IDENTITIES or (mine == seen and node.target not in MOVING):
            self.bases[node] = (root, flat, shape)
        elif node.target in MOVING or flat:
            return
        elif len(shape) == 4 and len(mine) == 2 and mine == (shape[0], shape[1] * shape[2] * shape[3]):
            self.bases[node] = (root, shape[2] * shape[3] > 1, shape)
        elif Value("", mine).memory_shape[-1] == Value("", shape).memory_shape[-1]:
            single = shape[2] * shape[3] == 1 if len(shape) == 4 else len(mine) != 4 or mine[2] * mine[3] == 1
            same_images = len(mine) != 4 or mine[0] == shape[0]
            if single and same_images and (len(mine) != 4 or len(shape) == 2):
                self.bases[node] = (root, False, mine)

    def _layer(self, node: fx.Node) -> Layer | None:
        """The layer that computes a node; the host writes an arrangement of values that it reads."""
        if node in self.hosted:
            self.reasons[node] = self.hosted[node]
            return None
        moved = [arg for arg in data_of(node)[:1] if node.target in WEIGHTED and self.arranged(arg)]
        self.bases |= {arg: (arg, False, shape_of(arg)) for arg in moved}
        layer = self._of_operands(node)
        for arg in moved:
            if layer is None:
                del self.bases[arg]
            else:
                self.to_host(arg)
        return layer

    def arranged(self, arg: Any) -> bool:
        """True if a node only arranges values, so that the host could write the arrangement."""
        moves = arg in self.repeated and arg in self._real and arg in self._from_input
        return moves and arg not in self.bases and isinstance(arg.meta["val"], torch.Tensor)

    def _of_operands(self, node: fx.Node) -> Layer | None:
        data = data_of(node)
        if not all(isinstance(arg, fx.Node) and arg in self.bases for arg in data):
            return None
        if any(not self.bases[arg][0].meta["val"].dtype.is_floating_point for arg in data):
            return None
        found = [rows_of(arg, self.captured) for arg in weights_of(node)]
        weights = [rows for rows in found if rows is not None]
        if len(weights) < len(found) or len({rows.first for rows in weights}) > 1:
            return None
        frozen = {rows.parameter in self.captured.frozen for rows in weights}
        if len(frozen) > 1:
            self.reasons[node] = "only one of its weight and bias is frozen"
            return None
        _, flat, _ = self.bases[data[0]]
        shapes, cat = [Value("", self.bases[arg][2]).memory_shape for arg in data], node.target is _CAT
        if (len(data) > 1 or cat) and any(self.bases[arg][1] for arg in data):
            return None
        if len(data) > 1 and not cat and all(self.bases[arg][0] in self.captured.inputs for arg in data):
            return None  # only operand A of a command can be in the ring of inputs
        if is_norm(node) and self.bases[data[0]][0] in self.captured.inputs:
            self.reasons[node] = READS_INPUT
            return None
        try:
            layer = layer_of(node, shapes, flat, self.batch, self.config)
        except Refused as refused:
            self.reasons[node] = str(refused)
            return None
        if layer is None or not layer.weighted:
            return layer
        return replace(layer, frozen=frozen.pop(), first_row=weights[0].first) if weights else None

    def _absorb(self) -> None:
        """Elementwise layers between operators of the host go to the host: it has their operands at hand."""
        host = set(self.host)
        for node in list(self.layers):
            if (node.target not in _ELEMENTWISE and not is_dropout(node)) or self.bases[node][1]:
                continue
            users = self.users(node)
            alone = node.target is _CAT or (users and users <= host)
            if alone and not any(each in self.layers for each in self.operands(node)):
                for each in [*self._dropouts.intersection(node.all_input_nodes), node]:
                    self.to_host(each)
                    host.add(each)
        self.host.sort(key=self.order.__getitem__)

    def _counters(self) -> dict[fx.Node, list[fx.Node]]:
        """Each belongs to one island: of its module if there is one, else to the first, or to one of its own."""
        found: dict[fx.Node, list[fx.Node]] = {}
        counted = {path_of(norm) for norm in self.norms}  # by the device's layers
        for node in self.captured.nodes:
            if node.name in self.captured.mutated and node in self.repeated and path_of(node) not in counted:
                near = (i for i in self.islands if path_of(node) in {path_of(member) for member in i})
                island = next(near, self.islands[0] if self.islands else [node])
                if not self.islands:
                    self.islands.append(island)
                found.setdefault(island[0], []).append(node)
        return found
