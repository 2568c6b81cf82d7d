"""Batch norm's commands beside those that make a result for each value: sums, constants, gradients."""

from ...spec.commands import Opcode, Phase
from .ir import BACKPROPAGATION, Step
from .lowering import Layer
from .norm_state import evaluation_constants, norm_constants
from .tensors import layer_tensor

__all__ = ["backward_steps", "constants_steps"]


def constants_steps(layer: Layer, place: int, batch: int) -> list[Step]:
    """The steps before NORM_APPLY: from a batch's sums if it trains, else from the running statistics."""
    x, numbers = layer.inputs[0], {"a": layer.inputs[0]}
    used = {"b": layer_tensor(layer, "weight"), "c": layer_tensor(layer, "statistics")}
    made, sums = {"out": layer_tensor(layer, "constants")}, layer_tensor(layer, "sums")
    of_batch = norm_constants(batch * layer.h * layer.w, layer.epsilon, layer.momentum)
    frozen = evaluation_constants(layer.epsilon)
    moving = {
        "const_mantissa": of_batch.epsilon.mantissa, "const_exponent": of_batch.epsilon.exponent,
        "momentum": of_batch.momentum, "unbiased_mantissa": of_batch.unbiased.mantissa,
        "unbiased_exponent": of_batch.unbiased.exponent,
    }  # fmt: skip
    still = {"const_mantissa": frozen.epsilon.mantissa, "const_exponent": frozen.epsilon.exponent}
    return [
        Step(Opcode.NORM_SUMS, Phase.TRAIN, place, {"a": x, "b": x, "out": sums}),
        Step(Opcode.NORM_CONSTANTS, Phase.TRAIN, place, {**used, "e": sums, **made}, moving, numbers=numbers),
        Step(Opcode.NORM_RUNNING, Phase.EVAL, place, {**used, **made}, still, numbers=numbers),
    ]


def backward_steps(layer: Layer, place: int, gradient: str) -> list[Step]:
    """Gradients of gamma and beta, and what the gradient of the input needs."""
    sums = layer_tensor(layer, "sums")
    return [
        Step(Opcode.NORM_SUMS, BACKPROPAGATION, place, {"a": layer.inputs[0], "b": gradient, "out": sums}),
        Step(
            Opcode.NORM_BACKWARD, BACKPROPAGATION, place,
            {"b": layer_tensor(layer, "constants"), "e": sums, "out": layer_tensor(layer, "weight_gradient")},
            {"track": 1}, numbers={"a": gradient, "b": layer.inputs[0]},
        ),
    ]  # fmt: skip
