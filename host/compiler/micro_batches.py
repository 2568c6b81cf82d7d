"""Batches in micro-batches: forward and backward passes of each in turn, sums of their gradients, and one update.

Exponents hold for a whole batch, and a COMMIT sees the maxima of all its micro-batches. So gradients of weights add up
exactly, unless they saturate. A BACKWARD_WEIGHT adds to the sum of those before as it writes. Other gradients of
parameters have a sum of their own, to which an AVGPOOL adds them. Activations of the micro-batches share their memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...spec.commands import CMode, Opcode
from ...spec.config import Config
from .batch import Batch
from .gradient_source import GradientSource, TrueGradients, sgd_update
from .graph import Graph
from .ir import BACKPROPAGATION, Step
from .lowering import Kind, Layer, LoweringError
from .quantise import operand_type
from .tensors import Tensor, layer_tensor

__all__ = ["SummedGradients", "batch_of", "in_micro_batches", "micro_batch_size", "sum_of", "sum_step"]

_SUM = "gradient_sum"


def micro_batch_size(batch: int, micro_batches: int) -> int:
    """Images of a micro-batch; raises LoweringError if a batch can't be cut into so many."""
    if micro_batches < 1:
        raise LoweringError(f"micro_batches = {micro_batches} must be at least 1")
    if batch % micro_batches:
        raise LoweringError(f"micro_batches = {micro_batches} must divide the batch of {batch}")
    return batch // micro_batches


class SummedGradients(TrueGradients):
    """The source of true gradients that are sums over micro-batches: the last one is followed by updates.

    Parameters
    ----------
    layers: the network's
    number, count: the micro-batch's place, and how many there are; the sums begin with the first
    """

    def __init__(self, layers: Sequence[Layer], config: Config, number: int = 0, count: int = 1):
        self.layers, self.config, self.number, self.count = layers, config, number, count

    def tensors(self, number: int) -> Iterator[tuple[str, Tensor]]:
        operand = operand_type(self.config.operand_width)
        for following, layer in enumerate(filter(_apart, self.layers), number):
            yield "state", Tensor(layer_tensor(layer, _SUM), layer.weight_shape, operand, following)

    def update(self, place: int, layer: Layer) -> Iterator[Step]:
        yield from self.summed(place, layer)
        if self.last:
            yield sgd_update(place, layer, BACKPROPAGATION, self.gradient(layer))

    def gradient(self, layer: Layer) -> str:
        return sum_of(layer)

    def summed(self, place: int, layer: Layer) -> Iterator[Step]:
        if _apart(layer):
            yield sum_step(place, layer, sum_of(layer), layer_tensor(layer, "weight_gradient"), self.first)


def sum_of(layer: Layer) -> str:
    """Name of the tensor with the sum of a layer's gradients."""
    return layer_tensor(layer, _SUM if _apart(layer) else "weight_gradient")


def sum_step(place: int, layer: Layer, total: str, gradient: str, first: bool) -> Step:
    """The gradient of a layer's weights becomes the sum ``total`` or is added to it, in place."""
    rows, elements = layer.weight_shape
    return Step(
        Opcode.AVGPOOL, BACKPROPAGATION, place,
        {"a": gradient, "out": total} if first else {"a": total, "c": gradient, "out": total},
        {"c_mode": int(CMode.NONE if first else CMode.ADD), "track": 1, "const_mantissa": 1},
        {"n": 1, "h": rows, "w": 1, "c": elements, "oh": rows, "ow": 1, "q": elements, "r": 1, "s": 1, "stride": 1},
    )  # fmt: skip


def batch_of(
    graph: Graph, batch: int, config: Config, micro_batches: int, source_of: Callable[..., GradientSource]
) -> Batch:  # fmt: skip
    """The steps of a batch: in micro-batches, as :func:`in_micro_batches` makes them, if there are several."""
    if micro_batches > 1:
        return in_micro_batches(graph, batch, config, micro_batches, source_of)
    return Batch.of(graph, source_of(), batch, config)


def in_micro_batches(
    graph: Graph, batch: int, config: Config, micro_batches: int, source_of: Callable[[int, int], GradientSource]
) -> Batch:
    """The steps of a batch of ``micro_batches``, each of ``batch`` images as ``graph`` is.

    ``source_of`` makes the source of gradients of a micro-batch from its place and how many there are. Raises
    LoweringError for a network in which micro-batches would depend on each other in another way.
    """
    _check(graph)
    whole = Batch()
    for number in range(micro_batches):
        one = Batch.of(graph, source_of(number, micro_batches), batch, config)
        *steps, commit, end = one.steps
        whole.steps += [replace(_added(step, graph) if number else step, micro_batch=number) for step in steps]
        whole.stops += one.stops
    whole.steps += [commit, end]
    return whole


def _check(graph: Graph) -> None:
    """Raise LoweringError for what a program of several micro-batches can't do."""
    if graph.islands:
        raise LoweringError(
            f"{graph.islands[0].name} runs on the host, which only knows whole batches: micro_batches must be 1"
        )
    if dropped := [layer.name for layer in graph.layers if layer.kind is Kind.DROPOUT]:
        raise LoweringError(
            f"{dropped[0]}: dropout draws by the number of the batch, so all micro-batches would drop the same"
            " elements: micro_batches must be 1"
        )


def _apart(layer: Layer) -> bool:
    """True if a layer's gradient can't be added up by the command that makes it."""
    return layer.trains and layer.kind is not Kind.GEMM


def _added(step: Step, graph: Graph) -> Step:
    """The step of a later micro-batch: a layer's product of gradients begins with the sum so far."""
    if step.opcode != Opcode.BACKWARD_WEIGHT or step.product is not None or "c" in step.operands:
        return step
    total = layer_tensor(graph.layers[step.layer], "weight_gradient")
    if not step.operands["out"].startswith(total):  # the sums of a depthwise layer's windows
        return step
    operands = {**step.operands, "c": total}
    offsets = {**step.offsets, "c": step.offsets.get("out", 0)}
    return replace(step, operands=operands, offsets=offsets, fields={**step.fields, "c_mode": int(CMode.ADD)})
