"""Lives of a network's values and gradients: from the first step of a batch that uses each to the last."""

from .batch import Batch
from .graph import Graph, outputs
from .lowering import Kind
from .tensors import layer_tensor

__all__ = ["lifetimes"]


def lifetimes(graph: Graph, work: Batch) -> dict[str, tuple[int, int]]:
    """The first and the last step that uses each tensor of a batch; results live until the end.

    State and the gradient source's tensors, which may outlive a batch, aren't among them.
    """
    mortal = {name for node in graph.nodes for name in outputs(node)}
    mortal |= {layer_tensor(node, "index") for node in graph.layers if node.kind is Kind.MAXPOOL}
    mortal |= {*work.gradients, *work.pieces}
    parts = {**graph.parts, **work.slices, **work.stacked}
    wholes = {name: part.inside(parts).of for name, part in parts.items()}
    lives: dict[str, tuple[int, int]] = {}
    stops = iter(work.stops)
    for place, step in enumerate(work.steps):
        used = set(step.operands.values())
        if not used and step.opcode.name == "HOST":
            stop = next(stops)
            used = {*stop.reads, *stop.writes, *(stop.island.inputs if stop.island else ())}
        for name in {wholes.get(name, name) for name in used} & mortal:
            lives[name] = (lives.get(name, (place, 0))[0], place)
    for name in {wholes.get(result.name, result.name) for result in graph.results}:
        lives[name] = (lives[name][0], len(work.steps))
    return lives
