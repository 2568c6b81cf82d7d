"""The backward pass of a graph: nodes in reverse order, and the sum of each value's gradients from its consumers.

Each sum so far is a tensor of its own, with its own exponent. A gradient that an addition passes on is the same tensor.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ...spec.commands import CMode
from ...spec.config import Config
from .borders import border_steps
from .gradient_source import GradientSource
from .graph import Graph, outputs
from .ir import BACKPROPAGATION, Step
from .islands import Island, Stop
from .joins import Join, Part, firsts
from .layer_steps import clamp_fields, input_gradient_step, sum_step, weight_gradient_steps
from .lowering import Kind, Layer
from .norm_steps import backward_steps
from .products import Product, product_steps, shared_gradients
from .tensors import loss_gradient

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
    pieces: tensors of partial gradients of weights, each with its layer
    slices, sliced: tensors that are a part of another, and the value whose gradient each is
    stacked: tensors of their own that lie in a part of another, which nothing reads any more
    gapped: tensors with gaps between their pixels, and their pitch
    """

    def __init__(self, graph: Graph, source: GradientSource, batch: int = 1, config: Config | None = None):
        self.graph, self.source, self.batch, self.config = graph, source, batch, config
        self.gradients: dict[str, str] = {}
        self.pieces: dict[str, Layer] = {}
        self.slices: dict[str, Part] = {}
        self.sliced: dict[str, str] = {}
        self.stacked: dict[str, Part] = {}
        self.gapped: dict[str, int] = {}
        self._free: set[str] = set()  # slices that their value alone has
        self._places = {layer.name: place for place, layer in enumerate(graph.layers)}
        self._wanted = self._trained_values()
        self._total = self._contributions()
        self._left = self._total.copy()  # gradients of each value that are still to come
        active = (node for node in reversed(graph.products) if self._total[node.output])
        self._shared = shared_gradients(active, graph.values, self._wanted)
        self._sums: dict[str, str] = {}  # the tensor with the sum so far, by value

    def _trained_values(self) -> set[str]:
        """Values that depend on a parameter, and whose gradient is therefore wanted."""
        wanted: set[str] = set()
        for node in self.graph.nodes:
            trains = node.trains if isinstance(node, Layer) else bool(node.parameters)
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
                yield from self._pass_on(result.name, loss_gradient(number), masked=not self.graph.clamped(result.name))
        for node in reversed(self.graph.nodes):
            if any(name in self._sums for name in outputs(node)):
                if isinstance(node, Join):
                    yield from self._join(node)
                elif isinstance(node, Product):
                    yield from self._product(node)
                else:
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

    def _join(self, join: Join) -> Iterator[Step]:
        """Each input's gradient is a part of the whole's."""
        gradient = self._sums[join.output]
        for number, (name, first) in enumerate(zip(join.inputs, firsts(join, self.graph.values), strict=True)):
            if name in self._wanted:
                part = f"{join.name}.gradient.part_of_input{number}"
                self.slices[part], self.sliced[part] = Part(gradient, first), name
                if self.gradients.get(gradient) == join.output:  # not another value's as well
                    self._free.add(part)
                yield from self._pass_on(name, part)

    def _dense(self, node: Layer | Product) -> Iterator[Step]:
        """The gradient of a node's result becomes one without gaps."""
        if (gradient := self._sums[node.output]) in self.slices | self.stacked | self.gapped:
            dense = self._sums[node.output] = f"{node.name}.gradient.dense"
            self.gradients[dense] = node.output
            yield self._elementwise(node.output, gradient, dense, CMode.NONE)

    def _product(self, product: Product) -> Iterator[Step]:
        """Each operand's gradient is a product too; those that are parts of one value make one gradient."""
        yield from self._dense(product)
        for number, value in enumerate(product.inputs):
            if value not in self._wanted:
                continue
            shared = self._shared[product.name, number]
            if shared.tensor not in self.gradients:
                self.gradients[shared.tensor] = value
                yield from shared.zeros(product.name)
            multiplication = product.gradient(number, self._sums[product.output], shared.tensor)
            yield from product_steps(multiplication, BACKPROPAGATION)
            shared.left -= 1
            if shared.left:
                self._left[value] -= 1
            else:
                yield from self._pass_on(value, shared.tensor)

    def _layer(self, layer: Layer) -> Iterator[Step]:
        if layer.kind is Kind.MAXPOOL:  # its index has no gaps
            yield from self._dense(layer)
        place, gradient = self._places[layer.name], self._sums[layer.output]
        if layer.kind is Kind.NORM:
            yield from backward_steps(layer, place, gradient)
        value, alike = layer.inputs[0], layer.kind is Kind.AVGPOOL and (layer.addend or layer.copies)
        if layer.addend in self._wanted:
            yield from self._pass_on(layer.addend, gradient)
        if value in self._wanted:
            if borders := [*border_steps(layer, place, f"{layer.name}.gradient.raised", self.batch, BACKPROPAGATION)]:
                raised = borders[0].operands["out"]
                self.gradients[raised] = layer.output
                yield self._elementwise(layer.output, gradient, raised, CMode.NONE)
                yield from borders
                gradient = raised
            yield from self._pass_on(value, gradient) if alike else self._compute(value, layer, place, gradient)
        if layer.trains and layer.kind is Kind.NORM:
            yield from self.source.update(place, layer)
        elif layer.trains:
            most = self.batch
            if self.config is not None:
                most = max(1, self.config.max_reduction // (layer.oh * layer.ow))
            steps, names = weight_gradient_steps(layer, place, gradient, self.batch, most)
            self.pieces.update(dict.fromkeys(names, layer))
            yield from steps
            yield from self.source.update(place, layer)

    def _compute(self, value: str, layer: Layer, place: int, gradient: str) -> Iterator[Step]:
        """A layer's part of a value's gradient is computed, added to the sum so far, and masked if it is the last."""
        so_far, masked = self._sums.get(value), self._masks(value)
        self._left[value] -= 1
        last = not self._left[value]
        apart = self._masked_apart(value, so_far, last and masked)
        mode, others = self._fan_in(value, so_far, last and masked and not apart)
        result = self._fresh(value, last and not apart)
        if so_far and layer.kind in (Kind.GEMM, Kind.NORM):
            self._stack(value, result, so_far)
        if layer.kind is Kind.NORM and self._pitch(result) != (pitch := self._value_pitch(value)):
            self.stacked.pop(result, None)  # X and dX have one pitch in the command
            self.gapped[result] = pitch
        yield self._clamped(value, input_gradient_step(layer, place, gradient, result, mode, *others))
        if apart:
            yield self._mask(value)

    def _value_pitch(self, value: str) -> int:
        """Elements from a pixel of a value to the next one."""
        part = self.graph.parts.get(value)
        return self.graph.values[part.of if part else value].memory_shape[-1]

    def _pitch(self, tensor: str) -> int:
        """The same of a tensor of gradients."""
        part = self.stacked.get(tensor)
        whole = part.inside({**self.slices, **self.stacked}).of if part else tensor
        if whole in self.gapped:
            return self.gapped[whole]
        value = self.gradients.get(whole) or next(r.name for n, r in enumerate(self.graph.results)
                                                  if loss_gradient(n) == whole)  # fmt: skip
        return self.graph.values[value].memory_shape[-1]

    def _stack(self, value: str, result: str, so_far: str) -> None:
        """The sum of gradients of a join within a join takes the place of the sum so far, which nothing else reads.

        Dense blocks would take space by the square of their depth otherwise.
        """
        if so_far in self._free and isinstance(self.graph.producers.get(value), Join):
            self.stacked[result] = self.slices[so_far]

    def _masks(self, value: str) -> bool:
        """True if the machine masks a value's gradient: that of a ReLU, unless the whole's was masked."""
        return (
            self._whole_masks(value)
            if isinstance(self.graph.producers.get(value), Join)
            else (self.graph.masks(value) and not self._masked_in_whole(value))
        )

    def _whole_masks(self, value: str) -> bool:
        """True if all of a join's inputs are ReLUs' results that nothing else uses, so that the whole is masked."""
        join = self.graph.producers.get(value)
        result = value in (result.name for result in self.graph.results)
        return (
            isinstance(join, Join)
            and not result
            and all(
                self._total[name] == 1
                and not self.graph.clamped(name)
                and (self.graph.masks(name) or self._whole_masks(name))
                for name in join.inputs
            )
        )

    def _masked_in_whole(self, value: str) -> bool:
        users = (node for node in self.graph.nodes if isinstance(node, Join) and value in node.inputs)
        return any(self._whole_masks(join.output) for join in users)

    def _pass_on(self, value: str, gradient: str, masked: bool = False) -> Iterator[Step]:
        """A tensor that is there already takes part in a value's gradient; ``masked``: the host has masked it."""
        so_far = self._sums.get(value)
        self._left[value] -= 1
        last = not self._left[value]
        masks = last and not masked and self._masks(value)
        apart = self._masked_apart(value, so_far, masks)
        mode, others = self._fan_in(value, so_far, masks and not apart)
        if mode is CMode.NONE:
            self._sums[value] = gradient
            return
        result = self._fresh(value, last and not apart)
        if so_far and mode in (CMode.ADD, CMode.ADD_MASK):
            self._stack(value, result, so_far)
        if result in self.stacked:  # operand A may lie where the result does
            gradient, others = so_far or "", (gradient, *others[1:])
        yield self._elementwise(value, gradient, result, mode, *others)
        if apart:
            yield self._mask(value)

    def _masked_apart(self, value: str, so_far: str | None, masked: bool) -> bool:
        """True if a sum's mask is a command of its own, as that of a ReLU with a bound or a slope must be."""
        return masked and bool(so_far) and self.graph.clamped(value) is not None

    def _mask(self, value: str) -> Step:
        total = self._sums[value]
        return self._elementwise(value, total, self._fresh(value, True), CMode.MASK, value)

    def _clamped(self, value: str, step: Step) -> Step:
        """The step, which makes a gradient of a value; where it masks, with bound and slope of the ReLU."""
        relu = self.graph.clamped(value)
        if relu is None or step.fields["c_mode"] != CMode.MASK:
            return step
        return replace(step, fields={**step.fields, **clamp_fields(relu)})

    def _elementwise(self, value: str, gradient: str, result: str, mode: CMode, *others: str) -> Step:
        owner, shape = self.graph.producers[value].name, self.graph.values[value].memory_shape
        return self._clamped(value, sum_step(shape, owner, gradient, result, mode, *others))

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
