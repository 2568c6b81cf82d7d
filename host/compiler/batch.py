"""The steps of a batch, in order, from a network's graph and the source of its gradients."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...spec.commands import Opcode, Phase
from ...spec.config import Config
from .backward import Backward
from .borders import border_steps
from .channel_groups import by_group
from .gradient_source import GradientSource
from .graph import Graph, as_graph
from .ir import WITH_LOSS, Step
from .islands import Island, Stop
from .joins import Join, Part
from .layer_steps import forward_step, undropped_step
from .lowering import Kind, Layer
from .norm_steps import constants_steps
from .products import Product, product_steps
from .tensors import loss_gradient

__all__ = ["Batch", "batch_steps"]


@dataclass
class Batch:
    """The steps of a batch, the stops at its HOST commands, and the gradients' tensors by name.

    ``gradients`` maps a gradient to the value whose shape it has, ``pieces`` a partial gradient of weights to its
    layer. ``slices``, ``sliced``, ``stacked`` and ``gapped`` are as in :class:`Backward`.
    """

    steps: list[Step] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    gradients: dict[str, str] = field(default_factory=dict)
    pieces: dict[str, Layer] = field(default_factory=dict)
    slices: dict[str, Part] = field(default_factory=dict)
    sliced: dict[str, str] = field(default_factory=dict)
    stacked: dict[str, Part] = field(default_factory=dict)
    gapped: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, source: GradientSource, batch: int = 1, config: Config | None = None) -> "Batch":
        """The batch of a network whose gradients come from ``source``."""
        self = cls()
        items = _batch(graph, source, backward := Backward(graph, source, batch, config), batch)
        for item in by_group(items, graph.layers, batch):
            if isinstance(item, Stop):
                self.stops.append(item)
                name = item.island.name if item.island else ""
                self.steps.append(Step(Opcode.HOST, item.phases, name=name))
            else:
                self.steps.append(item)
        self.gradients, self.pieces = backward.gradients, backward.pieces
        self.slices, self.sliced = backward.slices, backward.sliced
        self.stacked, self.gapped = backward.stacked, backward.gapped
        return self


def batch_steps(network: Graph | Sequence[Layer], source: GradientSource) -> list[Step]:
    """The steps of a batch after the header.

    With a source that has GP batches, such a batch has no backward pass, and the host isn't asked for the loss.
    """
    return Batch.of(as_graph(network), source).steps


def _batch(graph: Graph, source: GradientSource, backward: Backward, batch: int) -> Iterator[Step | Stop]:
    places = {layer.name: place for place, layer in enumerate(graph.layers)}
    for node in graph.nodes:
        if isinstance(node, Join):
            continue
        if isinstance(node, Island):
            yield Stop("forward", node, source.forward_phases, node.inputs, node.outputs)
        elif isinstance(node, Product):
            yield from product_steps(node.forward(), source.forward_phases)
        else:
            place = places[node.name]
            if node.kind is Kind.NORM:
                for step in constants_steps(node, place, batch):
                    yield replace(step, phases=step.phases & source.forward_phases)
            step = forward_step(node, place, graph.copies(node))
            yield from source.forward(place, node, step)
            for each in border_steps(node, place, node.output, batch, step.phases):
                yield from source.forward(place, node, each)
            if node.kind is Kind.DROPOUT:
                yield undropped_step(step)
    loss = WITH_LOSS if source.has_gp else Phase.ALL
    written = tuple(loss_gradient(number) for number in range(len(graph.results)))
    yield Stop("loss", None, loss, tuple(result.name for result in graph.results), written)
    yield from source.before_backward()
    yield from backward.steps()
    yield from source.after_backward()
    yield Step(Opcode.COMMIT, Phase.TRAIN)
    yield Step(Opcode.END, Phase.ALL)
