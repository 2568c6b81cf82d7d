"""Useful multiply-accumulates: the products that a layer is made of, without those of zeros that its mapping adds.

``adagp.spec.operands.macs`` counts products as the array computes them, among them those of padding. Useful ones are of
two elements of the layer's own tensors. Of small images they are few: of 2x2 pixels and a kernel of 3x3 with a padding
of 1, each window has four elements and five zeros.

The predictor's products aren't the network's, and so not useful; nor are repetitions in a batch that calibrates.
"""

from collections.abc import Sequence
from functools import cache
from math import prod

from ...spec.commands import Command, Opcode
from ...spec.opcodes import DEPTHWISE, GEMMS
from .compiler import Compiled
from .tensors import part_of
from .window_sums import TABLE

__all__ = ["useful_batch", "useful_convolution", "useful_lines", "useful_macs"]


def useful_macs(command: Command) -> int:
    """Useful products of a GEMM or of a depthwise convolution; 0 for other commands.

    All directions multiply the same pairs: each element of Y with the elements of X and of the filter that it is made
    of. A BACKWARD_WEIGHT also adds up the bias' gradients, as products with 1.
    """
    g = command
    if g.opcode not in (*GEMMS, *DEPTHWISE):
        return 0
    pairs = _pairs(g.oh, g.r, g.stride, g.pad_y, g.h) * _pairs(g.ow, g.s, g.stride, g.pad_x, g.w)
    products = g.n * g.c * pairs * (g.q if g.opcode in GEMMS else 1)
    return products + (g.n * g.oh * g.ow * g.q * g.bias if g.opcode == Opcode.BACKWARD_WEIGHT else 0)


def useful_lines(compiled: Compiled) -> list[int]:
    """Useful products of each line of a program: of the network's own layers."""
    tables = {tensor.address for name, tensor in compiled.tensors.items() if part_of(name) == TABLE}
    commands = [line.command for line in compiled.program]
    return [0 if c.predictor or c.a_addr in tables else useful_macs(c) for c in commands]


def useful_batch(compiled: Compiled, phase: int) -> int:
    """Useful products of the array in a batch of a phase."""
    counted = zip(compiled.program, useful_lines(compiled), strict=True)
    return sum(n for line, n in counted if line.command.phase_mask >> phase & 1 and line.command.opcode in GEMMS)


def useful_convolution(
    x: Sequence[int], filters: Sequence[int], bias: Sequence[int] | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, *_: object, out_shape: Sequence[int],
) -> int:  # fmt: skip
    """Operations, two a useful product, of a convolution by PyTorch; as its FlopCounterMode calls it, with shapes.

    A transposed one multiplies the pairs of the convolution that turns its result into its argument.
    """
    inner, outer = (x, out_shape) if transposed else (out_shape, x)
    axes = zip(inner[2:], filters[2:], stride, padding, outer[2:], dilation, strict=True)
    return 2 * x[0] * filters[0] * filters[1] * prod(_pairs(*axis) for axis in axes)


@cache
def _pairs(results: int, taps: int, stride: int, padding: int, size: int, dilation: int = 1) -> int:
    """Pairs, along an axis, of a result and an element that its window of ``taps`` covers."""
    firsts = (result * stride - padding for result in range(results))
    return sum(0 <= first + tap * dilation < size for first in firsts for tap in range(taps))
