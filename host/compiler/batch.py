"""The commands of a batch of a network, with tensors by name."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from ...spec.commands import CMode, Opcode, Phase
from .lowering import Kind, Layer
from .quantise import constant

if TYPE_CHECKING:
    from .predictor import Predictor
    from .substitutes import Control

__all__ = ["BACKPROPAGATION", "HYPER", "Step", "first_trained", "network_steps"]

HYPER = 0
"""Hyper-parameter index of the learning rate; momentum and weight decay follow."""

BACKPROPAGATION = Phase.WARMUP | Phase.BP


@dataclass(frozen=True)
class Step:
    """A command whose operands are still tensor names (by a, b, c, d, out).

    ``shape``: its geometry, images included, where it isn't that of the layer; ``numbers``: tensor numbers of operands
    that aren't their tensors' own; ``offsets``: elements from the beginning of operands' tensors to what is used;
    ``name``: whose it is, if not the layer's.
    """

    opcode: Opcode
    phases: Phase
    layer: int = 0
    operands: dict[str, str] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)
    shape: dict[str, int] | None = None
    numbers: dict[str, str] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    name: str = ""


def network_steps(layers: list[Layer], source: "Predictor | Control | None" = None) -> Iterator[Step]:
    """The commands of a batch after the header.

    With a ``source`` of its gradients a batch of phase GP has no backward pass, and the host isn't asked for the loss;
    unless it is a predictor there is no forward pass either.

    Gradients of activations go before those of weights: a layer's weight gradient then keeps the array
    busy while the results that the next layer needs are on their way to memory and back. A predictor learns from a
    layer behind the next one's backward pass: it reads as much as the layer's update writes, which is over by then,
    and a queue of its own never holds up what is behind. Its own weights are updated behind that layer's: while the
    array computes predictions it leaves the memory no time for anything else.
    """
    values = ["input", *(f"{layer.name}.output" for layer in layers)]
    gradients = [f"{layer.name}.gradient" for layer in layers[:-1]] + ["loss.gradient"]
    learner = cast("Predictor | None", source if source is not None and source.guesses else None)
    for place, layer in enumerate(layers):
        forward = _forward(layer, place, values[place], values[place + 1])
        if source is not None and learner is None:
            forward = replace(forward, phases=Phase.ALL & ~Phase.GP)
        if learner is not None and layer.kind is Kind.GEMM:
            yield from learner.forward(place, layer, forward, update(place, layer, Phase.GP))
            continue
        yield forward
        if source is not None and layer.kind is Kind.GEMM:
            guessed = update(place, layer, Phase.GP)
            given = source.given(layer, guessed)
            if given is not None:
                yield replace(guessed, **given)
    yield Step(Opcode.HOST, Phase.ALL if source is None else Phase.ALL & ~Phase.GP)
    if learner is not None:
        yield from learner.begin()
    trained = first_trained(layers)
    late: list[Step] = []
    last: list[Step] = []
    for place in range(len(layers) - 1, trained - 1, -1):
        layer = layers[place]
        if place > trained:
            masked = {"c": values[place]} if layers[place - 1].relu else {}
            yield _backward(layer, place, gradients[place], gradients[place - 1], masked)
        if layer.kind is Kind.GEMM:
            yield Step(
                Opcode.BACKWARD_WEIGHT, BACKPROPAGATION, place,
                {"a": values[place], "b": gradients[place], "out": f"{layer.name}.weight_gradient"},
                {"bias": int(layer.bias), "track": 1},
            )  # fmt: skip
            true = update(place, layer, BACKPROPAGATION)
            if learner is None:
                yield true
                yield from source.learn(place, layer) if source is not None else ()
                continue
            yield from late
            yield learner.compare(place, layer)
            yield replace(true, **learner.judged(layer, true))
            yield from last
            late, last = list(learner.learn(place, layer)), list(learner.step(layer))
    if learner is not None:
        yield from (*late, *last, *learner.end())
    yield Step(Opcode.COMMIT, Phase.TRAIN)
    yield Step(Opcode.END, Phase.ALL)


def first_trained(layers: list[Layer]) -> int:
    """Place of the first layer with weights."""
    return next(place for place, layer in enumerate(layers) if layer.kind is Kind.GEMM)


def update(place: int, layer: Layer, phases: Phase) -> Step:
    """SGD on a layer's weights with its true gradient."""
    names = {"a": "weight_gradient", "b": "weight", "c": "low", "out": "momentum"}
    operands = {operand: f"{layer.name}.{name}" for operand, name in names.items()}
    return Step(Opcode.UPDATE, phases, place, operands, {"count": layer.q * layer.filter_elements, "hyper": HYPER})


def _forward(layer: Layer, place: int, source: str, result: str) -> Step:
    fields = {"relu": int(layer.relu), "track": int(not layer.copies), **constant_fields(layer)}
    operands = {"a": source, "out": result}
    if layer.kind is Kind.GEMM:
        operands["b"], fields["bias"] = f"{layer.name}.weight", int(layer.bias)
    if layer.kind is Kind.MAXPOOL:
        operands["b"] = f"{layer.name}.index"
    opcode = {Kind.GEMM: Opcode.FORWARD, Kind.MAXPOOL: Opcode.MAXPOOL, Kind.AVGPOOL: Opcode.AVGPOOL}[layer.kind]
    return Step(opcode, Phase.ALL, place, operands, fields)


def _backward(layer: Layer, place: int, source: str, result: str, masked: dict[str, str]) -> Step:
    """The gradient of a layer's input from that of its output; zero where ``masked`` isn't positive."""
    fields = {"track": 1, "c_mode": int(CMode.MASK if masked else CMode.NONE), **constant_fields(layer)}
    operands = {"a": source, "out": result, **masked}
    if layer.kind is Kind.AVGPOOL:
        return Step(Opcode.AVGPOOL_BACKWARD, BACKPROPAGATION, place, operands, fields)
    pool = layer.kind is Kind.MAXPOOL
    operands["b"] = f"{layer.name}.{'index' if pool else 'weight'}"
    opcode = Opcode.MAXPOOL_BACKWARD if pool else Opcode.BACKWARD_DATA
    return Step(opcode, BACKPROPAGATION, place, operands, fields)


def constant_fields(layer: Layer) -> dict[str, int]:
    if layer.kind is not Kind.AVGPOOL:
        return {}
    mantissa, exponent = constant(layer.scale)
    return {"const_mantissa": mantissa, "const_exponent": exponent}
