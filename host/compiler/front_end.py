"""From any ``torch.nn.Module`` to the machine's graph."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import fx, nn

from ...spec.config import Config
from .capture import Captured, capture, path_of
from .graph import Graph, chain
from .island_function import IslandFunction
from .islands import Island
from .lowering import Kind, Layer, LoweringError, lower
from .partition import Partition
from .values import INPUT, Value, output_name

__all__ = ["build_graph", "graph_of"]


def graph_of(module: nn.Module, input_shape: tuple[int, ...], batch: int, config: Config) -> Graph:
    """The graph of a network for inputs of ``input_shape`` without the batch; raises LoweringError.

    A ``torch.nn.Sequential`` of the machine's layers alone becomes them one by one; all else is captured.
    """
    if isinstance(module, nn.Sequential) and len(input_shape) in (1, 3):
        try:
            return chain(lower(module, input_shape, config), batch)
        except LoweringError as refused:
            if not captured_types(module):
                raise refused from None
    dtype = next((parameter.dtype for parameter in module.parameters()), torch.float32)
    return build_graph(module, (torch.zeros(batch, *input_shape, dtype=dtype),), config)


def captured_types(module: nn.Module) -> bool:
    """True if the network has modules that only a capture understands."""
    from .lowering import _HANDLERS

    return any(type(part) not in {*_HANDLERS, nn.Sequential} for part in module.modules())


def build_graph(module: nn.Module, args: tuple[torch.Tensor, ...], config: Config) -> Graph:
    """The graph of a network that trains on arguments like ``args``; raises LoweringError."""
    captured = capture(module, args)
    batch = args[0].shape[0]
    modules = dict(module.named_modules())
    return _Builder(captured, Partition(captured, batch, config), modules).graph()


@dataclass
class _Names:
    """Names of nodes: path and type of the module, or the operator's name in a module of several; each once."""

    modules: dict[str, nn.Module]
    used: set[str]

    def name(self, node: fx.Node) -> str:
        """A new name for a node."""
        path = path_of(node)
        module = self.modules.get(path)
        single = module is not None and path and not any(True for _ in module.children())
        kind = type(module).__name__ if single else str(getattr(node.target, "_opname", node.name))
        base = name = ".".join(filter(None, (path, kind.strip("_"))))
        number = 1
        while name in self.used:
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        return name


class _Builder:
    """Layers and islands from a partition, in topological order."""

    def __init__(self, captured: Captured, partition: Partition, modules: dict[str, nn.Module]):
        self.captured, self.partition = captured, partition
        self.names = _Names(modules, set())
        self.value: dict[fx.Node, str] = {}  # by the node whose result lies in memory
        self.values: dict[str, Value] = {}
        self.fused: dict[fx.Node, fx.Node] = {}  # a layer's node by its ReLU's

    def graph(self) -> Graph:
        """The graph."""
        for number, node in enumerate(self.captured.inputs):
            self._declare(node, INPUT + (f"{number}" if number else ""))
        result = self.partition.base(self.captured.result)
        assert result is not None
        self._fuse(result[0])
        nodes = [self._layer(unit) if isinstance(unit, fx.Node) else self._island(unit) for unit in self._units()]
        if not any(isinstance(node, Layer) for node in nodes):
            raise LoweringError("the network has no operator that the machine can compute")
        self._check_parameters(nodes)
        inputs = tuple(self.value[node] for node in self.captured.inputs)
        return Graph(tuple(nodes), self.values, self.value[result[0]], inputs)

    def _declare(self, node: fx.Node, name: str) -> str:
        shape = self.partition.bases[node][2]
        dtype = str(node.meta["val"].dtype).removeprefix("torch.")
        self.value[node], self.values[name] = name, Value(name, tuple(shape), dtype)
        return name

    def _fuse(self, result: fx.Node) -> None:
        """A ReLU that alone uses a layer's result becomes part of the layer."""
        layers = self.partition.layers
        for node, layer in layers.items():
            if not (layer.relu and layer.kind is Kind.AVGPOOL):
                continue
            before = self.partition.operands(node)[0]
            alone = self.partition.users(before) == {node} and before is not result
            if alone and before in layers and before not in self.fused:
                self.fused[node] = before

    def _units(self) -> Iterator[fx.Node | list[fx.Node]]:
        """Layers' nodes and islands, each after what it reads."""
        inside = set(self.fused.values())
        relus = {layer: relu for relu, layer in self.fused.items()}
        units: list[fx.Node | list[fx.Node]] = [node for node in self.partition.layers if node not in inside]
        units += self.partition.islands
        home = {
            each: place for place, unit in enumerate(units) for each in ([unit] if isinstance(unit, fx.Node) else unit)
        }
        home |= {layer: home[relu] for layer, relu in relus.items()}
        needs = []
        for place, unit in enumerate(units):
            if isinstance(unit, fx.Node):
                read = set(self.partition.operands(self.fused.get(unit, unit)))
            else:
                read = self.partition.sources(unit)
            needs.append({home[each] for each in read if each in home} - {place})
        ends = [unit if isinstance(unit, fx.Node) else unit[-1] for unit in units]
        ahead = sorted(range(len(units)), key=lambda place: self.partition.order[ends[place]])
        done: set[int] = set()
        while ahead:
            ready = next(place for place in ahead if needs[place] <= done)
            ahead.remove(ready)
            done.add(ready)
            yield units[ready]

    def _layer(self, node: fx.Node) -> Layer:
        own = self.fused.get(node, node)
        layer, name = self.partition.layers[own], self.names.name(own)
        parameters = [
            self.captured.parameters[arg.name]
            for arg in own.all_input_nodes if arg.name in self.captured.parameters
        ]  # fmt: skip
        value = self._declare(node, output_name(name))
        if own is not node:
            self.values[value] = replace(self.values[value], shape=tuple(self.partition.bases[own][2]))
        return replace(
            layer, name=name, relu=layer.relu or own is not node,
            inputs=tuple(sorted((self.value[each] for each in self.partition.operands(own)), key=INPUT.__ne__)),
            parameters=(parameters[0] if parameters else "", parameters[1] if len(parameters) > 1 else ""),
        )  # fmt: skip

    def _island(self, members: list[fx.Node]) -> Island:
        name = self.names.name(members[0])
        own = {node.name: node for node in self.captured.nodes}
        partition, inside = self.partition, set(members)
        extra = {own[node] for node in self.captured.mutated if own[node] in partition.repeated}
        prefixes = {path_of(node) for node in members}
        extra = {node for node in extra if path_of(node) in prefixes}
        steps = sorted(partition.closure({*members, *extra}), key=partition.order.__getitem__)
        sources = sorted(partition.sources({*members, *extra}), key=partition.order.__getitem__)
        inputs = [node for node in sources if node in self.value]
        results = [node for node in members if self._used_outside(node, inside)]
        for number, node in enumerate(results):
            self._declare(node, output_name(name, number))
        captured = self.captured
        function = IslandFunction(
            tuple(steps), tuple(inputs), tuple(results),
            {node: captured.parameters[node.name] for node in sources if node.name in captured.parameters},
            {node: captured.buffers[node.name] for node in sources if node.name in captured.buffers},
            {node: captured.constants[node.name] for node in sources if node.name in captured.constants},
            {node: captured.mutated[node.name] for node in steps if node.name in captured.mutated},
        )  # fmt: skip
        operators = tuple(str(node.target._opname) for node in members if hasattr(node.target, "_opname"))
        buffers = dict.fromkeys((*function.buffers.values(), *function.mutated.values()))
        return Island(
            name, operators, tuple(self.value[node] for node in inputs), tuple(self.value[node] for node in results),
            tuple(function.parameters.values()), tuple(buffers), function,
        )  # fmt: skip

    def _used_outside(self, node: fx.Node, inside: set[fx.Node]) -> bool:
        """True if a layer, another island or the network's result uses the node."""
        used = self.partition.users(node) - inside
        return bool({each for each in used if each.op != "output"}) or (
            self.partition.bases.get(self.captured.result, (None,))[0] is node
        )

    def _check_parameters(self, nodes: list[Layer | Island]) -> None:
        """Each layer's parameters are its own; those that several islands use, the host has once."""
        owners: dict[str, Layer | Island] = {}
        for node in nodes:
            for parameter in filter(None, node.parameters):
                other = owners.setdefault(parameter, node)
                if other is not node and not (isinstance(node, Island) and isinstance(other, Island)):
                    raise LoweringError(
                        f"{node.name} uses {parameter}, as {other.name} does: shared weights aren't supported"
                    )
