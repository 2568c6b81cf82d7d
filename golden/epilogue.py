"""The epilogue, from accumulators to operands: requantise, bias, C operand, ReLU, maximum, saturation."""

from dataclasses import dataclass

import numpy as np

from ..spec.commands import CMode
from ..spec.numerics import SHIFT_MAX, SHIFT_MIN, operand_max, unpredicted
from .requantise import requantise, requantise_each, saturate

__all__ = ["Result", "epilogue", "top_of"]

_OPERAND_SHIFT = 31
"""Shifts of biases and C operands are clamped to plus or minus this."""


@dataclass(frozen=True)
class Result:
    """Operands (int64, one exponent), their maximum's place and how many were cut.

    ``top``: bit length of the largest magnitude before saturation plus the exponent, None if all is 0.
    """

    out: np.ndarray
    top: int | None
    saturations: int


def top_of(largest: int, exponent: int) -> int | None:
    """Bit length of the ``largest`` magnitude plus its exponent, None for 0."""
    return largest.bit_length() + exponent if largest else None


def _shift(exp_to: int, exp_from: int, low: int = -_OPERAND_SHIFT, high: int = _OPERAND_SHIFT) -> int:
    return max(low, min(high, exp_to - exp_from))


def epilogue(
    acc: np.ndarray, exp_acc: int | np.ndarray, exp_out: int, *, acc_width: int, operand_width: int,
    last_exp: int | None = None, bias: np.ndarray | None = None, exp_bias: int = 0,
    c: np.ndarray | None = None, exp_c: int = 0, c_mode: CMode = CMode.NONE, relu: bool = False,
    d: np.ndarray | None = None,
) -> Result:  # fmt: skip
    """Operands with exponent ``exp_out`` from sums ``acc`` with exponent ``exp_acc``.

    ``exp_acc``: an array for batch norm, with an exponent for each place along the last axis. ``last_exp``: exponent of
    the last element of each row of ``acc``, where it is another one (bias gradients). ``bias`` broadcasts over the last
    axis; ``c`` and ``d`` are shaped like ``acc``.
    """
    if isinstance(exp_acc, np.ndarray):
        x = requantise_each(acc, np.clip(exp_out - exp_acc, SHIFT_MIN, SHIFT_MAX), acc_width)
    else:
        x = requantise(acc, _shift(exp_out, exp_acc, SHIFT_MIN, SHIFT_MAX), acc_width)
    if last_exp is not None:
        x[..., -1] = requantise(acc[..., -1], _shift(exp_out, last_exp, SHIFT_MIN, SHIFT_MAX), acc_width)
    if bias is not None:
        x = x + requantise(bias.astype(np.int64), _shift(exp_out, exp_bias), acc_width)
    if c_mode in (CMode.ADD, CMode.ADD_MASK):
        assert c is not None
        x = x + requantise(c.astype(np.int64), _shift(exp_out, exp_c), acc_width)
    if c_mode == CMode.SUB:
        assert c is not None
        x = x - requantise(c.astype(np.int64), _shift(exp_out, exp_c), acc_width)
    if relu:
        x = np.maximum(x, 0)
    if c_mode == CMode.MASK:
        assert c is not None
        x = np.where(c > 0, x, 0)
    if c_mode == CMode.ADD_MASK:
        assert c is not None and d is not None
        x = np.where((d > 0) & (c != unpredicted(operand_width)), x, 0)
    out, saturations = saturate(x, operand_max(operand_width))
    return Result(out, top_of(int(np.abs(x).max()), exp_out), saturations)
