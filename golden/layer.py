"""Whole layers on NHWC tensors: what one compute command does, in one direction.

Weights and their gradients are one row per filter, ``[q, r*s*c + 1]``, the bias last, or without biases one less. A
shape ``g`` is anything with a command's geometry fields.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..spec.commands import CMode, Command, Opcode
from ..spec.config import Config
from ..spec.opcodes import AVERAGES, BACKWARD_WEIGHTS, DEPTHWISE, GEMMS
from . import pool
from .array import matmul
from .depthwise import depthwise, depthwise_backward_data, depthwise_backward_weight
from .epilogue import Bound, Result, epilogue
from .im2col import col2im, im2col

__all__ = ["LayerExponents", "backward_data", "backward_weight", "clamp", "compute", "forward"]

_COLUMN_ELEMENTS = 1 << 20
"""Size up to which the windows of several images are gathered for one product."""


@dataclass(frozen=True)
class LayerExponents:
    """Exponents of a command's operands."""

    a: int
    b: int
    c: int
    out: int


def _images(g) -> Iterator[slice]:
    """Slices of the batch whose windows fit the cache."""
    at_once = max(1, _COLUMN_ELEMENTS // (g.oh * g.ow * g.r * g.s * g.c))
    return (slice(at, min(at + at_once, g.n)) for at in range(0, g.n, at_once))


def forward(x_NHWC: np.ndarray, w_K: np.ndarray, g) -> np.ndarray:
    """``x`` convolved with the filters, bias left out: int64 ``[n, oh, ow, q]``."""
    y = np.empty((g.n, g.oh, g.ow, g.q), np.int64)
    for part in _images(g):
        y[part] = matmul(im2col(x_NHWC[part], g), w_K[:, : g.r * g.s * g.c].T).reshape(-1, g.oh, g.ow, g.q)
    return y


def backward_data(dy_NHWK: np.ndarray, w_K: np.ndarray, g) -> np.ndarray:
    """Gradient of ``x`` from that of ``y``: int64 ``[n, h, w, c]``."""
    dx = np.empty((g.n, g.h, g.w, g.c), np.int64)
    filters = w_K[:, : g.r * g.s * g.c].reshape(g.q, g.r * g.s, g.c).swapaxes(0, 1)
    for part in _images(g):
        taps = matmul(dy_NHWK[part].reshape(-1, g.q), filters).reshape(g.r, g.s, -1, g.oh, g.ow, g.c)
        dx[part] = col2im(taps, g)
    return dx


def backward_weight(x_NHWC: np.ndarray, dy_NHWK: np.ndarray, g) -> np.ndarray:
    """Gradient of the filters, and of the biases as the last element: int64 ``[q, r*s*c + 1]``."""
    dw = np.zeros((g.q, g.r * g.s * g.c + 1), np.int64)
    for part in _images(g):
        dw[:, :-1] += matmul(dy_NHWK[part].reshape(-1, g.q).T, im2col(x_NHWC[part], g))
    dw[:, -1] = dy_NHWK.sum(axis=(0, 1, 2), dtype=np.int64)
    return dw


def _sums(command: Command, x: Mapping[str, np.ndarray], config: Config) -> tuple[np.ndarray, np.ndarray | None]:
    """The accumulators of a compute command, and MAXPOOL's index tensor."""
    opcode, constant = command.opcode, command.const_mantissa
    if opcode == Opcode.FORWARD:
        return forward(x["a"], x["b"], command), None
    if opcode == Opcode.BACKWARD_DATA:
        return backward_data(x["a"], x["b"], command), None
    if opcode == Opcode.BACKWARD_WEIGHT:
        dw = backward_weight(x["a"], x["b"], command)
        return dw if command.bias else dw[:, :-1], None
    if opcode == Opcode.DEPTHWISE:
        return depthwise(x["a"], x["b"], command), None
    if opcode == Opcode.DEPTHWISE_BACKWARD_DATA:
        return depthwise_backward_data(x["a"], x["b"], command), None
    if opcode == Opcode.DEPTHWISE_BACKWARD_WEIGHT:
        dw = depthwise_backward_weight(x["a"], x["b"], command)
        return dw if command.bias else dw[:, :-1], None
    if opcode == Opcode.MAXPOOL:
        return pool.maxpool(x["a"], command, config.operand_width)
    if opcode == Opcode.MAXPOOL_BACKWARD:
        return pool.maxpool_backward(x["a"], x["b"], command), None
    if opcode == Opcode.REORGANISE:
        return (x["sums"] * constant).reshape(command.n, command.oh, command.ow, command.q), None
    if opcode == Opcode.AVGPOOL:
        return np.where(x.get("kept", True), pool.avgpool(x["a"], command, constant), 0), None
    return pool.avgpool_backward(x["a"], command, constant), None


def _sums_exponent(command: Command, exps: LayerExponents) -> int:
    if command.opcode in (*GEMMS, *DEPTHWISE):
        return exps.a + exps.b
    return exps.a + command.const_exponent if command.opcode in AVERAGES else exps.a


def _dry_exponent(command: Command, exps: LayerExponents, config: Config) -> int:
    """Exponent of a dry run's result: the sums', or the least at which a bias keeps its maximum."""
    exp_acc = _sums_exponent(command, exps)
    if command.bias and command.opcode in (Opcode.FORWARD, Opcode.DEPTHWISE):
        return max(exp_acc, exps.b - config.bias_room)
    if command.bias and command.opcode in BACKWARD_WEIGHTS:
        return max(exp_acc, exps.b - config.bias_gradient_room)
    return exp_acc


def clamp(command: Command, config: Config) -> dict:
    """Bound and slope of a command's results, where the machine has them."""
    if not config.clamps:
        return {}
    bound = Bound(command.bound_mantissa, command.bound_exponent) if command.bound_mantissa else None
    return {"bound": bound, "slope": command.slope}


def compute(
    command: Command, x: Mapping[str, np.ndarray], exps: LayerExponents, config: Config, dry: bool = False
) -> tuple[Result, np.ndarray | None]:
    """Result of a compute command from its operands ``x`` (by name: a, b, c, d), and MAXPOOL's index tensor.

    A REORGANISE takes ``x["sums"]``; dropout keeps the elements of the mask ``x["kept"]``. A weight gradient without
    ``bias`` has one element less per filter.
    """
    acc, index = _sums(command, x, config)
    exp_acc = _sums_exponent(command, exps)
    bias = command.bias and command.opcode in (Opcode.FORWARD, Opcode.DEPTHWISE)
    bias_gradient = command.bias and command.opcode in BACKWARD_WEIGHTS
    result = epilogue(
        acc, exp_acc, _dry_exponent(command, exps, config) if dry else exps.out,
        acc_width=config.acc_width, operand_width=config.operand_width,
        last_exp=exps.b if bias_gradient else None, bias=x["b"][:, -1] if bias else None, exp_bias=exps.b,
        c=x["c"][..., : acc.shape[-1]] if "c" in x else None, exp_c=exps.c,
        d=x["d"][..., : acc.shape[-1]] if "d" in x else None,
        c_mode=CMode(command.c_mode), relu=bool(command.relu), **clamp(command, config),
    )  # fmt: skip
    return result, index
