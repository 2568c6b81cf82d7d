"""The predictor's input of depthwise layers, which the array computes from the layer's output.

The sums of a filter's results in each window are a product of matrices: of the output, and of a table that has a
constant where a pixel lies in a window. A BACKWARD_WEIGHT multiplies so, with the table as X and the output as dY.
"""

from collections.abc import Iterator

import numpy as np

from ...spec.commands import CMode, Opcode, Phase
from ...spec.numerics import WINDOWS, window_sizes
from .ir import Step
from .lowering import Layer
from .quantise import constant, operand_type
from .tensors import layer_tensor, predictor_tensor

__all__ = ["SUMS", "TABLE", "sum_steps", "windows_of", "windows_table"]

SUMS = WINDOWS * WINDOWS
"""Values of a filter."""
TABLE = "windows"
"""Last part of the names of tables."""


def windows_of(layer: Layer) -> str:
    """Name of the table of windows, one for all layers with results of the same height and width."""
    return predictor_tensor(TABLE, f"{layer.oh}x{layer.ow}")


def windows_table(batch: int, height: int, width: int, operand_width: int) -> tuple[np.ndarray, int]:
    """The table of windows [batch, height, width, SUMS] and its exponent: one over the elements of a window, or 0.

    A single row or column is in both windows, the last one of an odd number in none.
    """
    mantissa, exponent = constant(1 / (batch * window_sizes(height, width)), operand_width - 1)
    rows, columns = _inside(height), _inside(width)
    inside = (rows[:, None, :, None] & columns[None, :, None, :]).reshape(height, width, SUMS)
    table = np.where(inside, mantissa, 0).astype(operand_type(operand_width))
    return np.broadcast_to(table, (batch, *table.shape)).copy(), exponent


def _inside(extent: int) -> np.ndarray:
    """True where a place lies in a window, [extent, WINDOWS]."""
    size = extent // WINDOWS
    if not size:
        return np.ones((extent, WINDOWS), bool)
    return np.arange(extent)[:, None] // size == np.arange(WINDOWS)


def sum_steps(
    batch: int, place: int, layer: Layer, phases: Phase, number: int = 0, count: int = 1
) -> Iterator[Step]:  # fmt: skip
    """A layer's reorganised output from its output: weight gradients in rows with a place for a bias, then without.

    The output is of micro-batch ``number`` of ``count``, and its part of the mean is added to that of earlier ones.
    """
    sums, shared = layer_tensor(layer, "sums"), predictor_tensor("reorganised")
    kernel = {"r": 1, "s": 1, "stride": 1}
    shape = {"n": batch, "h": layer.oh, "w": layer.ow, "c": SUMS, "oh": layer.oh, "ow": layer.ow, "q": layer.q}
    yield Step(
        Opcode.BACKWARD_WEIGHT, phases, place, {"a": windows_of(layer), "b": layer.output, "out": sums},
        {"track": 1}, {**shape, **kernel}, {"out": shared},
    )  # fmt: skip
    rows = {"n": 1, "h": layer.q, "w": 1, "c": SUMS, "oh": layer.q, "ow": 1, "q": SUMS}
    result, (mantissa, exponent) = layer_tensor(layer, "reorganised"), constant(1 / count)
    fields = {"const_mantissa": mantissa, "const_exponent": exponent, "x_pitch": SUMS + 1}
    operands = {"a": sums, "out": result}
    if number:
        operands["c"], fields["c_mode"] = result, int(CMode.ADD)
    yield Step(
        Opcode.AVGPOOL, phases, place, operands, fields, {**rows, **kernel}, dict.fromkeys(operands, shared)
    )  # fmt: skip
