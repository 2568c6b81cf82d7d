"""From any ``torch.nn.Module`` to the machine's graph."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx, nn

from ...spec.config import Config
from .capture import Captured, capture, capture_evaluation, operator_of, path_of, shape_of
from .evaluation import Evaluation
from .graph import Graph, chain
from .island_function import IslandFunction
from .islands import Island
from .joins import Join, Node, placed
from .lowering import KNOWN, Kind, Layer, LoweringError, lower
from .operators import is_dropout, weights_of
from .partition import Partition
from .products import Product
from .reasons import why_on_host
from .values import INPUT, Input, Value, inputs_of, output_name
from .weight_parts import rows_of, torn

__all__ = ["build_graph", "graph_of"]


def graph_of(module: nn.Module, inputs: Sequence[int] | Sequence[Input], batch: int, config: Config) -> Graph:
    """The graph of a network for batches of its arguments, or of its only one's shape; raises LoweringError.

    A ``torch.nn.Sequential`` of the machine's layers alone becomes them one by one; all else is captured. The reason
    why it isn't such a one is that of the error, if the capture is refused too.
    """
    given = inputs_of(inputs)
    shape = given[0].shape
    chained: LoweringError | None = None
    if isinstance(module, nn.Sequential) and len(shape) in (1, 3) and not given[0].whole:
        try:
            flat = len(shape) == 1 or any(isinstance(part, nn.Flatten) for part in module.modules())
            return chain(lower(module, shape, config), batch, flat)
        except LoweringError as refused:
            chained = refused
    dtype = next((parameter.dtype for parameter in module.parameters()), torch.float32)
    args = [torch.zeros(batch, *each.shape, dtype=torch.int64 if each.whole else dtype) for each in given]
    try:
        return build_graph(module, tuple(args), config)
    except LoweringError as refused:
        raise (chained if chained is not None and known_types(module) else refused) from None


def known_types(module: nn.Module) -> bool:
    """True if all modules of a Sequential are of types that the machine knows, and take it without groups."""
    known = (*KNOWN, nn.Sequential)
    return all(type(part) in known and getattr(part, "groups", 1) == 1 for part in module.modules())


def build_graph(module: nn.Module, args: tuple[torch.Tensor, ...], config: Config) -> Graph:
    """The graph of a network that trains on arguments like ``args``; raises LoweringError."""
    captured = capture(module, args, config.matmul)
    batch = args[0].shape[0]
    modules = dict(module.named_modules())
    evaluation, hosted = Evaluation(captured, capture_evaluation(module, args, config.matmul)), dict[fx.Node, str]()
    while more := _hosted(partition := Partition(captured, batch, config, hosted), evaluation):
        hosted |= more
    return _Builder(captured, partition, evaluation, modules).graph()


def _hosted(partition: Partition, evaluation: Evaluation) -> dict[fx.Node, str]:
    """Layers that must be the host's, and why."""
    unlike = dict.fromkeys(evaluation.unlike(partition), "it does something else in evaluation")
    return unlike | torn(partition.layers, partition.captured)


@dataclass
class _Names:
    """Names of nodes: path and type of the module, or the operator's name in a module of several; each once."""

    modules: dict[str, nn.Module]
    used: set[str]

    def name(self, node: fx.Node) -> str:
        """A new name for a node."""
        base = name = self.place(node)
        number = 1
        while name in self.used:
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        return name

    def place(self, node: fx.Node) -> str:
        """A node's name, which other nodes may have too."""
        path = path_of(node)
        module = self.modules.get(path)
        single = module is not None and path and not any(True for _ in module.children())
        kind = type(module).__name__ if single else operator_of(node)
        return ".".join(filter(None, (path, kind.strip("_"))))


class _Builder:
    """Layers and islands from a partition, in topological order."""

    def __init__(self, captured: Captured, partition: Partition, evaluation: Evaluation, modules: dict[str, nn.Module]):
        self.captured, self.partition, self.evaluation = captured, partition, evaluation
        self.names = _Names(modules, set())
        self.value: dict[fx.Node, str] = {}  # by the node whose result lies in memory
        self.values: dict[str, Value] = {}
        self.fused: dict[fx.Node, list[fx.Node]] = {}  # the nodes of a layer by the last of several

    def graph(self) -> Graph:
        """The graph."""
        for number, node in enumerate(self.captured.inputs):
            self._declare(node, INPUT + (f"{number}" if number else ""))
        results = [self.partition.bases[node][0] for node in self.captured.results]
        self._fuse(set(results))
        nodes = [self._node(unit) if isinstance(unit, fx.Node) else self._island(unit) for unit in self._units()]
        if not any(isinstance(node, Layer) for node in nodes):
            reasons = [f"{path_of(node) or 'the network'}: {why}" for node, why in self.partition.reasons.items()]
            raise LoweringError("; ".join(["the network has no operator that the machine can compute", *reasons[:1]]))
        self._check_parameters(nodes)
        inputs = tuple(self.value[node] for node in self.captured.inputs)
        found = (
            replace(self.values[self.value[base]], shape=shape_of(node))
            for base, node in zip(results, self.captured.results, strict=True)
        )
        whole = placed(nodes, self.values)
        return Graph(tuple(whole.nodes), whole.values, tuple(found), inputs, whole.parts)

    def _declare(self, node: fx.Node, name: str) -> str:
        shape = self.partition.bases[node][2]
        if 0 in shape:
            raise LoweringError(f"{path_of(node) or 'the network'}: {name} has no elements: its shape is {shape}")
        dtype = str(node.meta["val"].dtype).removeprefix("torch.")
        self.value[node], self.values[name] = name, Value(name, tuple(shape), dtype)
        return name

    def _fuse(self, results: set[fx.Node]) -> None:
        """An addition that alone uses a weighted layer's result becomes part of that layer, and so does a ReLU."""
        partition, layers = self.partition, self.partition.layers

        def alone(before: fx.Node, node: fx.Node) -> bool:
            able = before in layers and before not in results
            able = able and layers[before].kind not in (Kind.JOIN, Kind.PRODUCT)
            return able and partition.users(before) == {node}

        for node, layer in layers.items():
            both = partition.operands(node)
            if layer.kind in (Kind.JOIN, Kind.PRODUCT):
                continue
            if len(both) > 1:
                pairs = [(one, other) for one, other in (both, both[::-1]) if other is not one]
                able = [
                    one for one, other in pairs
                    if alone(one, node) and layers[one].weighted and other not in self.captured.inputs
                ]  # fmt: skip
                if able:
                    self.fused[node] = [max(able, key=partition.order.__getitem__), node]
            elif layer.relu and layer.kind is Kind.AVGPOOL and alone(both[0], node) and not layers[both[0]].relu:
                if layer.bound and layers[both[0]].inside:
                    continue  # which is only complete after its borders
                self.fused[node] = [*self.fused.pop(both[0], both), node]

    def _units(self) -> Iterator[fx.Node | list[fx.Node]]:
        """Layers' nodes and islands, each after what it reads."""
        inside = {each: last for last, nodes in self.fused.items() for each in nodes[:-1]}
        units: list[fx.Node | list[fx.Node]] = [node for node in self.partition.layers if node not in inside]
        units += self.partition.islands
        home = {
            each: place for place, unit in enumerate(units) for each in ([unit] if isinstance(unit, fx.Node) else unit)
        }
        home |= {each: home[last] for each, last in inside.items()}
        needs = []
        for place, unit in enumerate(units):
            read = set(self._read(unit)) if isinstance(unit, fx.Node) else self.partition.sources(unit)
            needs.append({home[each] for each in read if each in home} - {place})
        ends = [unit if isinstance(unit, fx.Node) else unit[-1] for unit in units]
        ahead = sorted(range(len(units)), key=lambda place: self.partition.order[ends[place]])
        done: set[int] = set()
        while ahead:
            ready = next(place for place in ahead if needs[place] <= done)
            ahead.remove(ready)
            done.add(ready)
            yield units[ready]

    def _read(self, node: fx.Node) -> list[fx.Node]:
        """The values that the layer which ends in a node reads, the one that it computes from first.

        Of an addition that is an argument, if one is, as only operand A can be in the ring of inputs.
        """
        nodes = self.fused.get(node, [node])
        read = [each for part in nodes for each in self.partition.operands(part) if each not in nodes]
        if self.partition.layers[nodes[0]].weighted:
            return read
        return sorted(read, key=lambda each: each not in self.captured.inputs)

    def _node(self, node: fx.Node) -> Layer | Join | Product:
        layer, products = self.partition.layers[node], self.partition.products
        if layer.kind is Kind.PRODUCT:
            name = self.names.name(products.own[node])
            self._declare(node, output_name(name))
            one, other = (self.value[each] for each in products.sources[node])
            return Product(name, (one, other), products.places[node], *products.sizes[node])
        if layer.kind is not Kind.JOIN:
            return self._layer(node)
        name = self.names.name(node)
        self._declare(node, output_name(name))
        return Join(name, tuple(self.value[each] for each in self.partition.operands(node)))

    def _layer(self, node: fx.Node) -> Layer:
        own, *fused = self.fused.get(node, [node])
        layer = self.partition.layers[own]
        named: Any = own.args[0] if is_dropout(own) else own
        name = self.names.name(named)
        rows = [rows_of(arg, self.captured) for arg in weights_of(own)]
        parameters = [each.parameter for each in rows if each is not None]
        value = self._declare(node, output_name(name))
        if own is not node:
            self.values[value] = replace(self.values[value], shape=tuple(self.partition.bases[own][2]))
        last = self.partition.layers[node]
        return replace(
            layer, name=name, relu=last.relu, bound=last.bound, slope=last.slope,
            inputs=tuple(self.value[each] for each in self._read(node)),
            parameters=(parameters[0] if parameters else "", parameters[1] if len(parameters) > 1 else ""),
            buffers=self._statistics(own) if layer.kind is Kind.NORM else (),
            fused=tuple(self.names.place(each) for each in fused),
        )  # fmt: skip

    def _statistics(self, node: fx.Node) -> tuple[str, ...]:
        """Names of a batch norm's buffers: running mean, running variance, and the count of batches if it has one."""
        args: list[Any] = list(node.all_input_nodes[0].args)
        mean, variance = (self.captured.buffers[arg.name] for arg in args[3:5])
        count = f"{mean.rpartition('.')[0]}.num_batches_tracked".removeprefix(".")
        return mean, variance, *(name for name in self.captured.buffers.values() if name == count)

    def _island(self, members: list[fx.Node]) -> Island:
        name = self.names.name(members[0])
        partition, inside = self.partition, set(members)
        extra = partition.counters.get(members[0], ())
        steps = sorted(partition.closure({*members, *extra}), key=partition.order.__getitem__)
        sources = sorted(partition.sources({*members, *extra}), key=partition.order.__getitem__)
        inputs = [node for node in sources if node in self.value]
        results = [node for node in members if self._used_outside(node, inside)]
        for number, node in enumerate(results):
            self._declare(node, output_name(name, number))
        captured = self.captured
        trained = {node: captured.parameters[node.name] for node in sources if node.name in captured.parameters}
        function = IslandFunction(
            tuple(steps), tuple(inputs), tuple(results),
            {node: name for node, name in trained.items() if name not in captured.frozen},
            {node: captured.buffers[node.name] for node in sources if node.name in captured.buffers}
            | {node: name for node, name in trained.items() if name in captured.frozen},
            {node: captured.constants[node.name] for node in sources if node.name in captured.constants},
            {node: captured.mutated[node.name] for node in (*members, *extra) if node.name in captured.mutated},
        )  # fmt: skip
        function = self.evaluation.function(function)
        computed = [node for node in members if hasattr(node.target, "_opname")]
        operators = tuple(map(operator_of, computed))
        others = function.evaluation.buffers.values() if function.evaluation else ()
        buffers = dict.fromkeys((*function.buffers.values(), *function.mutated.values(), *others))
        return Island(
            name, operators, tuple(self.value[node] for node in inputs), tuple(self.value[node] for node in results),
            tuple(function.parameters.values()), tuple(buffers), function,
            tuple(dict.fromkeys(
                (operator_of(node), self.names.place(node), why_on_host(node, partition)) for node in computed
            )),
        )  # fmt: skip

    def _used_outside(self, node: fx.Node, inside: set[fx.Node]) -> bool:
        """True if a layer, another island or the network's result uses the node."""
        used = self.partition.users(node) - inside
        results = (self.partition.bases[result][0] for result in self.captured.results)
        return bool({each for each in used if each.op != "output"}) or node in results

    def _check_parameters(self, nodes: Sequence[Node]) -> None:
        """Each layer's parameters are its own; those that several islands use, the host has once."""
        owners: dict[str, Node] = {}
        for node in nodes:
            names = (*node.parameters, *node.buffers) if isinstance(node, Island) else node.parameters
            for parameter in filter(None, names):
                other = owners.setdefault(parameter, node)
                parts = isinstance(node, Layer) and isinstance(other, Layer) and node.first_row != other.first_row
                islands = isinstance(node, Island) and isinstance(other, Island)
                if other is not node and not parts and not islands:
                    raise LoweringError(
                        f"{node.name} uses {parameter}, as {other.name} does: shared weights aren't supported"
                    )
