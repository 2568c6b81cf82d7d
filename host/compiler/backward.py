"""The backward pass of a graph: nodes in reverse order, and the sum of each value's gradients from its consumers.

Each sum so far is a tensor of its own, with its own exponent. A gradient that an addition passes on is the same tensor.
"""

from collections import Counter
from collections.abc import Iterator

from ...spec.commands import CMode
from ...spec.config import Config
from .gradient_source import GradientSource
from .graph import Graph, outputs
from .ir import BACKPROPAGATION, Step
from .islands import Island, Stop
from .layer_steps import input_gradient_step, sum_step, weight_gradient_steps
from .lowering import Kind, Layer
from .tensors import LOSS_GRADIENT, loss_gradient

__all__ = ["Backward"]


class Backward:
    """The steps of a graph's backward pass.

    Parameters
    ----------
    graph: the network
    source: decides the steps of updates
    batch, config: images of a batch, and the accelerator's limits; without limits nothing is cut

    Attributes
    ----------
    gradients: tensors of gradients, each with the value whose shape it has; complete after :meth:`steps`
    parts: tensors of partial gradients of weights, each with its layer
    """

    def __init__(self, graph: Graph, source: GradientSource, batch: int = 1, config: Config | None = None):
        self.graph, self.source, self.batch, self.config = graph, source, batch, config
        self.gradients: dict[str, str] = {}
        self.parts: dict[str, Layer] = {}
        self._places = {layer.name: place for place, layer in enumerate(graph.layers)}
        self._wanted = self._trained_values()
        self._left = self._contributions()  # gradients of each value that are still to come
        self._sums: dict[str, str] = {}  # the tensor with the sum so far, by value

    def _trained_values(self) -> set[str]:
        """Values that depend on a parameter, and whose gradient is therefore wanted."""
        wanted: set[str] = set()
        for node in self.graph.nodes:
            trains = bool(node.parameters) if isinstance(node, Island) else node.trains
            if trains or wanted.intersection(node.inputs):
                wanted.update(name for name in outputs(node) if self.graph.values[name].dtype.startswith("float"))
        return wanted

    def _contributions(self) -> Counter[str]:
        left = Counter(result.name for result in self.graph.results if result.name in self._wanted)
        for node in reversed(self.graph.nodes):
            if any(left[name] for name in outputs(node)):
                left.update(name for name in node.inputs if name in self._wanted)
        return left

    def steps(self) -> Iterator[Step | Stop]:
        """The steps, in order.

        A layer's gradient of activations goes before that of its weights: the weight gradient then keeps the array
        busy while the results that the next layer needs are on their way to memory and back.
        """
        for number, result in enumerate(self.graph.results):
            if result.name in self._wanted:
                yield from self._pass_on(result.name, loss_gradient(number))
        for node in reversed(self.graph.nodes):
            if any(name in self._sums for name in outputs(node)):
                yield from self._island(node) if isinstance(node, Island) else self._layer(node)

    def _island(self, island: Island) -> Iterator[Step | Stop]:
        """The host computes the gradients of the inputs; each then takes part in its value's sum."""
        written = {
            name: f"{island.name}.input_gradient{number}"
            for number, name in enumerate(island.inputs) if name in self._wanted
        }  # fmt: skip
        self.gradients.update({tensor: name for name, tensor in written.items()})
        reads = tuple(self._sums.get(name, "") for name in island.outputs)
        if written or island.parameters:
            yield Stop("backward", island, BACKPROPAGATION, reads, tuple(written.get(n, "") for n in island.inputs))
        for name, tensor in written.items():
            yield from self._pass_on(name, tensor)

    def _layer(self, layer: Layer) -> Iterator[Step]:
        place, gradient = self._places[layer.name], self._sums[layer.output]
        value, alike = layer.inputs[0], layer.kind is Kind.AVGPOOL and (layer.addend or layer.copies)
        if layer.addend in self._wanted:
            yield from self._pass_on(layer.addend, gradient)
        if value in self._wanted:
            yield from self._pass_on(value, gradient) if alike else self._compute(value, layer, place, gradient)
        if layer.trains:
            most = self.batch
            if self.config is not None:
                most = max(1, self.config.max_reduction // (layer.oh * layer.ow))
            steps, names = weight_gradient_steps(layer, place, gradient, self.batch, most)
            self.parts.update(dict.fromkeys(names, layer))
            yield from steps
            yield from self.source.update(place, layer)

    def _compute(self, value: str, layer: Layer, place: int, gradient: str) -> Iterator[Step]:
        """A layer's part of a value's gradient is computed, added to the sum so far, and masked if it is the last."""
        so_far, masked = self._sums.get(value), self.graph.masks(value)
        self._left[value] -= 1
        last = not self._left[value]
        mode, others = self._fan_in(value, so_far, last and masked)
        yield input_gradient_step(layer, place, gradient, self._fresh(value, last), mode, *others)

    def _pass_on(self, value: str, gradient: str) -> Iterator[Step]:
        """A tensor that is there already takes part in a value's gradient."""
        so_far, masked = self._sums.get(value), self.graph.masks(value)
        self._left[value] -= 1
        last = not self._left[value]
        mode, others = self._fan_in(value, so_far, last and masked and not gradient.startswith(LOSS_GRADIENT))
        if mode is CMode.NONE:
            self._sums[value] = gradient
            return
        owner, shape = self.graph.producers[value].name, self.graph.values[value].memory_shape
        yield sum_step(shape, owner, gradient, self._fresh(value, last), mode, *others)

    def _fan_in(self, value: str, so_far: str | None, masked: bool) -> tuple[CMode, tuple[str, ...]]:
        """The mode and the operands C and D by which a gradient joins the sum so far, and is masked."""
        if so_far:
            return (CMode.ADD_MASK, (so_far, value)) if masked else (CMode.ADD, (so_far,))
        return (CMode.MASK, (value,)) if masked else (CMode.NONE, ())

    def _fresh(self, value: str, final: bool) -> str:
        """A new tensor, which becomes the sum of the value's gradients so far."""
        owner, _, part = value.rpartition(".")
        name = f"{owner}.{part.replace('output', 'gradient')}"
        if not final:
            name += f".part{sum(other.startswith(f'{name}.part') for other in self.gradients)}"
        self.gradients[name] = value
        self._sums[value] = name
        return name
