"""The commands of a layer: forward, gradients of its input and of its weights, and sums and masks of gradients."""

from dataclasses import replace

from ...spec.commands import CMode, Opcode, Phase
from ...spec.norm import GRADIENT_PLANES
from .ir import BACKPROPAGATION, Step
from .lowering import Kind, Layer
from .quantise import bound_of, constant
from .tensors import layer_tensor

__all__ = [
    "clamp_fields", "forward_step", "input_gradient_step", "sum_step", "undropped_step", "weight_gradient_steps",
]  # fmt: skip

_FORWARD = {
    Kind.GEMM: Opcode.FORWARD, Kind.DEPTHWISE: Opcode.DEPTHWISE, Kind.MAXPOOL: Opcode.MAXPOOL,
    Kind.AVGPOOL: Opcode.AVGPOOL, Kind.UPSAMPLE: Opcode.AVGPOOL_BACKWARD, Kind.NORM: Opcode.NORM_APPLY,
    Kind.DROPOUT: Opcode.AVGPOOL,
}  # fmt: skip
_BACKWARD = {
    Kind.GEMM: Opcode.BACKWARD_DATA, Kind.DEPTHWISE: Opcode.DEPTHWISE_BACKWARD_DATA,
    Kind.MAXPOOL: Opcode.MAXPOOL_BACKWARD, Kind.AVGPOOL: Opcode.AVGPOOL_BACKWARD, Kind.UPSAMPLE: Opcode.AVGPOOL,
    Kind.NORM: Opcode.NORM_APPLY_BACKWARD, Kind.DROPOUT: Opcode.AVGPOOL,
}  # fmt: skip
_BACKWARD_WEIGHT = {Kind.GEMM: Opcode.BACKWARD_WEIGHT, Kind.DEPTHWISE: Opcode.DEPTHWISE_BACKWARD_WEIGHT}


def forward_step(layer: Layer, place: int, copies: bool) -> Step:
    """A layer's output from its inputs; ``copies``: at the exponent of the first."""
    fields = {"relu": int(layer.relu), "track": int(not copies), **clamp_fields(layer), **_average_fields(layer)}
    operands = {"a": layer.inputs[0], "out": layer.output}
    if layer.weighted and layer.kind is not Kind.NORM:
        operands["b"], fields["bias"] = layer_tensor(layer, "weight"), int(layer.bias)
    if layer.kind is Kind.MAXPOOL:
        operands["b"] = layer_tensor(layer, "index")
    numbers = {}
    if layer.kind is Kind.NORM:
        operands["e"], numbers["b"] = layer_tensor(layer, "constants"), layer_tensor(layer, "weight")
    if layer.addend:
        operands["c"], fields["c_mode"] = layer.addend, int(CMode.ADD)
    phases = Phase.TRAIN if layer.kind is Kind.DROPOUT else Phase.ALL
    return Step(_FORWARD[layer.kind], phases, place, operands, fields, numbers=numbers)


def undropped_step(forward: Step) -> Step:
    """The step of a dropout's evaluation, from that of its training: a copy."""
    fields = {**forward.fields, "momentum": 0, "const_mantissa": 1, "const_exponent": 0}
    return replace(forward, phases=Phase.EVAL, fields=fields)


def input_gradient_step(layer: Layer, place: int, gradient: str, result: str, mode: CMode, *others: str) -> Step:
    """The gradient of a layer's input from that of its output, with the tensors ``others`` as operands C and D."""
    fields = {"track": 1, "c_mode": int(mode), **_average_fields(layer)}
    operands = {"a": gradient, "out": result, **dict(zip("cd", others, strict=False))}
    offsets = {}
    if layer.weighted or layer.kind is Kind.MAXPOOL:
        operands["b"] = layer_tensor(layer, "index" if layer.kind is Kind.MAXPOOL else "weight")
    if layer.kind is Kind.NORM:
        operands |= {"b": layer.inputs[0], "e": layer_tensor(layer, "weight_gradient")}
        offsets["e"] = GRADIENT_PLANES * layer.c
    return Step(_BACKWARD[layer.kind], BACKPROPAGATION, place, operands, fields, offsets=offsets)


def sum_step(
    shape: tuple[int, int, int, int], name: str, value: str, result: str, mode: CMode, *others: str
) -> Step:  # fmt: skip
    """A tensor of ``shape`` with the operands C and D of a ``mode``; ``name`` is its owner's."""
    n, h, w, c = shape
    geometry = {"n": n, "h": h, "w": w, "c": c, "oh": h, "ow": w, "q": c, "r": 1, "s": 1, "stride": 1}
    return Step(
        Opcode.AVGPOOL, BACKPROPAGATION, 0, {"a": value, "out": result, **dict(zip("cd", others, strict=False))},
        {"track": 1, "c_mode": int(mode), "const_mantissa": 1}, geometry, name=name,
    )  # fmt: skip


def weight_gradient_steps(
    layer: Layer, place: int, gradient: str, batch: int, most: int
) -> tuple[list[Step], list[str]]:
    """The gradient of a layer's weights, and the names of partial ones.

    One command sums over at most ``most`` images. Further ones add their part to the result so far, which has a tensor
    of its own.
    """
    opcode, result = _BACKWARD_WEIGHT[layer.kind], layer_tensor(layer, "weight_gradient")
    fields = {"bias": int(layer.bias), "track": 1}
    operands = {"a": layer.inputs[0], "b": gradient, "out": result}
    if batch <= most:
        return [Step(opcode, BACKPROPAGATION, place, operands, fields)], []
    pieces = -(-batch // most)
    size = -(-batch // pieces)
    firsts = list(range(0, batch, size))
    names = [f"{result}.part{piece}" for piece in range(len(firsts) - 1)]
    steps = []
    for first, name, before in zip(firsts, [*names, result], ["", *names], strict=True):
        more = {"c": before} if before else {}
        mode = CMode.ADD if before else CMode.NONE
        steps.append(Step(
            opcode, BACKPROPAGATION, place, {**operands, **more, "out": name},
            {**fields, "c_mode": int(mode)}, {"n": min(size, batch - first), **layer.geometry()},
            offsets={"a": first * layer.h * layer.w * layer.c, "b": first * layer.oh * layer.ow * layer.q},
        ))  # fmt: skip
    return steps, names


def clamp_fields(layer: Layer) -> dict[str, int]:
    """Bound and slope of a layer's ReLU, by command field: for its results, and for the mask of their gradient."""
    fields = {"slope": layer.slope} if layer.slope else {}
    if layer.bound:
        fields["bound_mantissa"], fields["bound_exponent"] = bound_of(layer.bound)
    return fields


def _average_fields(layer: Layer) -> dict[str, int]:
    """The factor of an average or a dropout, and what that drops, by command field."""
    if layer.kind is Kind.UPSAMPLE:
        return {"const_mantissa": 1}
    if layer.kind not in (Kind.AVGPOOL, Kind.DROPOUT):
        return {}
    mantissa, exponent = constant(layer.scale)
    dropped = {"momentum": layer.drop} if layer.kind is Kind.DROPOUT else {}
    return {"const_mantissa": mantissa, "const_exponent": exponent, **dropped}
