"""The epilogue, from accumulators to operands: requantise, bias, C operand, ReLU, maximum, saturation."""

from dataclasses import dataclass

import numpy as np

from ..spec.commands import CMode
from ..spec.numerics import BOUND_BITS, BOUND_SHIFT, SHIFT_MAX, SHIFT_MIN, SLOPE_BITS, operand_max, unpredicted
from .requantise import requantise, requantise_each, round_shift, saturate

__all__ = ["Bound", "Result", "epilogue", "top_of"]

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


@dataclass(frozen=True)
class Bound:
    """The most that a clamped result can be, mantissa * 2^exponent."""

    mantissa: int
    exponent: int

    def shift(self, exponent: int) -> int:
        """Places to the right of the mantissa for LSBs of 2^exponent."""
        return _shift(exponent, self.exponent, -BOUND_SHIFT, BOUND_SHIFT)

    def at(self, exponent: int, operand_width: int) -> int:
        """The bound in LSBs of 2^exponent; it has a bit more than operands, so none reaches one beyond their range."""
        return int(requantise(np.array(self.mantissa), self.shift(exponent), operand_width + 1))


def epilogue(
    acc: np.ndarray, exp_acc: int | np.ndarray, exp_out: int, *, acc_width: int, operand_width: int,
    last_exp: int | None = None, bias: np.ndarray | None = None, exp_bias: int = 0,
    c: np.ndarray | None = None, exp_c: int = 0, c_mode: CMode = CMode.NONE, relu: bool = False,
    d: np.ndarray | None = None, bound: Bound | None = None, slope: int = 0,
) -> Result:  # fmt: skip
    """Operands with exponent ``exp_out`` from sums ``acc`` with exponent ``exp_acc``.

    ``exp_acc``: an array for batch norm, with an exponent for each place along the last axis. ``last_exp``: exponent of
    the last element of each row of ``acc``, where it is another one (bias gradients). ``bias`` broadcasts over the last
    axis; ``c`` and ``d`` are shaped like ``acc``. ``slope``: of a ReLU below zero, in 2^-SLOPE_BITS.
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
    low = (x < 0) & relu
    if c_mode == CMode.MASK:
        assert c is not None
        low |= c <= 0
        if bound:
            x = np.where(c >= bound.at(exp_c, operand_width), 0, x)
    if c_mode == CMode.ADD_MASK:
        assert c is not None and d is not None
        low |= (d <= 0) | (c == unpredicted(operand_width))
    if not slope:
        x = np.where(low, 0, x)
    top = top_of(int(np.abs(x).max()), exp_out)
    if bound and c_mode != CMode.MASK:
        x = np.minimum(x, bound.at(exp_out, operand_width))
        top = None if top is None else min(top, exp_out + BOUND_BITS - bound.shift(exp_out))
    out, saturations = saturate(x, operand_max(operand_width))
    if slope:
        out = np.where(low, round_shift(out * slope, SLOPE_BITS), out)
    return Result(out, top, saturations)
