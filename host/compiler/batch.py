"""The steps of a batch, in order, from a network's layers and the source of its gradients."""

from collections.abc import Iterator

from ...spec.commands import CMode, Opcode, Phase
from .gradient_source import GradientSource
from .ir import BACKPROPAGATION, WITH_LOSS, Step
from .lowering import Kind, Layer
from .quantise import constant
from .tensors import INPUT, LOSS_GRADIENT, layer_tensor

__all__ = ["batch_steps", "first_trained"]


def batch_steps(layers: list[Layer], source: GradientSource) -> Iterator[Step]:
    """The steps of a batch after the header.

    With a source that has GP batches, such a batch has no backward pass, and the host isn't asked for the loss.

    In the backward pass a layer's gradient of activations goes before that of its weights: the weight gradient then
    keeps the array busy while the results that the next layer needs are on their way to memory and back.
    """
    values = [INPUT, *(layer_tensor(layer, "output") for layer in layers)]
    gradients = [layer_tensor(layer, "gradient") for layer in layers[:-1]] + [LOSS_GRADIENT]
    for place, layer in enumerate(layers):
        yield from source.forward(place, layer, _forward(layer, place, values[place], values[place + 1]))
    yield Step(Opcode.HOST, WITH_LOSS if source.has_gp else Phase.ALL)
    yield from source.before_backward()
    trained = first_trained(layers)
    for place in range(len(layers) - 1, trained - 1, -1):
        layer = layers[place]
        if place > trained:
            masked = {"c": values[place]} if layers[place - 1].relu else {}
            yield _backward(layer, place, gradients[place], gradients[place - 1], masked)
        if layer.kind is Kind.GEMM:
            yield _weight_gradient(layer, place, values[place], gradients[place])
            yield from source.update(place, layer)
    yield from source.after_backward()
    yield Step(Opcode.COMMIT, Phase.TRAIN)
    yield Step(Opcode.END, Phase.ALL)


def first_trained(layers: list[Layer]) -> int:
    """Place of the first layer with weights."""
    return next(place for place, layer in enumerate(layers) if layer.kind is Kind.GEMM)


def _forward(layer: Layer, place: int, value: str, result: str) -> Step:
    """A layer's output from its input."""
    fields = {"relu": int(layer.relu), "track": int(not layer.copies), **_average_fields(layer)}
    operands = {"a": value, "out": result}
    if layer.kind is Kind.GEMM:
        operands["b"], fields["bias"] = layer_tensor(layer, "weight"), int(layer.bias)
    if layer.kind is Kind.MAXPOOL:
        operands["b"] = layer_tensor(layer, "index")
    opcode = {Kind.GEMM: Opcode.FORWARD, Kind.MAXPOOL: Opcode.MAXPOOL, Kind.AVGPOOL: Opcode.AVGPOOL}[layer.kind]
    return Step(opcode, Phase.ALL, place, operands, fields)


def _backward(layer: Layer, place: int, gradient: str, result: str, masked: dict[str, str]) -> Step:
    """The gradient of a layer's input from that of its output; zero where ``masked`` isn't positive."""
    fields = {"track": 1, "c_mode": int(CMode.MASK if masked else CMode.NONE), **_average_fields(layer)}
    operands = {"a": gradient, "out": result, **masked}
    if layer.kind is Kind.AVGPOOL:
        return Step(Opcode.AVGPOOL_BACKWARD, BACKPROPAGATION, place, operands, fields)
    pool = layer.kind is Kind.MAXPOOL
    operands["b"] = layer_tensor(layer, "index" if pool else "weight")
    opcode = Opcode.MAXPOOL_BACKWARD if pool else Opcode.BACKWARD_DATA
    return Step(opcode, BACKPROPAGATION, place, operands, fields)


def _weight_gradient(layer: Layer, place: int, value: str, gradient: str) -> Step:
    """The gradient of a layer's weights from its input and its output's gradient."""
    operands = {"a": value, "b": gradient, "out": layer_tensor(layer, "weight_gradient")}
    return Step(Opcode.BACKWARD_WEIGHT, BACKPROPAGATION, place, operands, {"bias": int(layer.bias), "track": 1})


def _average_fields(layer: Layer) -> dict[str, int]:
    """The factor of an average, by command field."""
    if layer.kind is not Kind.AVGPOOL:
        return {}
    mantissa, exponent = constant(layer.scale)
    return {"const_mantissa": mantissa, "const_exponent": exponent}
