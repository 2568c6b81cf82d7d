"""The epilogue, from accumulators to operands: requantise, bias, C operand, ReLU, maximum, saturation."""

from dataclasses import dataclass

import numpy as np

from ..spec.commands import CMode
from ..spec.numerics import BOUND_BITS, BOUND_SHIFT, SHIFT_MAX, SHIFT_MIN, SLOPE_BITS, operand_max, unpredicted
from .requantise import requantise, requantise_each, round_shift, saturate

__all__ = ["Bound", "Result", "epilogue", "top_of"]

_CHUNK = 1 << 15
"""Values handled at a time, so that temporaries stay in the cache."""
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

    ``exp_acc``: an array for batch norm, with an exponent for each place along the last axis, or shaped like ``acc``.
    ``last_exp``: exponent of the last element of each row of ``acc``, where it is another one (bias gradients).
    ``bias`` broadcasts over the last axis; ``c`` and ``d`` are shaped like ``acc``. ``slope``: of a ReLU below zero, in
    2^-SLOPE_BITS.
    """
    cut_at, masked_by = (None, bound) if c_mode == CMode.MASK else (bound, None)
    limit = None if cut_at is None else cut_at.at(exp_out, operand_width)
    edge = None if masked_by is None else masked_by.at(exp_c, operand_width)
    added = None if bias is None else requantise(bias.astype(np.int64), _shift(exp_out, exp_bias), acc_width)
    out, largest, saturations = np.empty(acc.shape, np.int64), 0, 0
    places = acc.shape[-1]
    by_element = exp_acc.reshape(-1, places) if isinstance(exp_acc, np.ndarray) and exp_acc.ndim > 1 else None
    step, rows, results = max(1, _CHUNK // places), acc.reshape(-1, places), out.reshape(-1, places)
    others = [None if each is None else each.reshape(-1, places) for each in (c, d)]
    for at in range(0, len(rows), step):
        part = slice(at, at + step)
        exponents = exp_acc if by_element is None else by_element[part]
        x = _aligned(rows[part], exponents, exp_out, last_exp, acc_width)
        if added is not None:
            x += added
        c_part, d_part = (None if each is None else each[part] for each in others)
        x, low = _joined(x, c_part, d_part, _shift(exp_out, exp_c), c_mode, relu, edge, acc_width, operand_width)
        if low is not None and not slope:
            np.putmask(x, low, 0)
        reached = max(int(x.max()), -int(x.min()))
        largest = max(largest, reached)
        if limit is not None:
            np.minimum(x, limit, out=x)
        if reached > operand_max(operand_width):
            x, cut = saturate(x, operand_max(operand_width))
            saturations += cut
        results[part] = np.where(low, round_shift(x * slope, SLOPE_BITS), x) if slope and low is not None else x
    top = top_of(largest, exp_out)
    if top is not None and cut_at is not None:
        top = min(top, exp_out + BOUND_BITS - cut_at.shift(exp_out))
    return Result(out, top, saturations)


def _aligned(
    acc: np.ndarray, exp_acc: int | np.ndarray, exp_out: int, last_exp: int | None, acc_width: int
) -> np.ndarray:  # fmt: skip
    """Sums in LSBs of 2^exp_out."""
    if isinstance(exp_acc, np.ndarray):
        return requantise_each(acc, np.clip(exp_out - exp_acc, SHIFT_MIN, SHIFT_MAX), acc_width)
    x = requantise(acc, _shift(exp_out, exp_acc, SHIFT_MIN, SHIFT_MAX), acc_width)
    if last_exp is not None:
        x[..., -1] = requantise(acc[..., -1], _shift(exp_out, last_exp, SHIFT_MIN, SHIFT_MAX), acc_width)
    return x


def _joined(
    x: np.ndarray, c: np.ndarray | None, d: np.ndarray | None, shift: int, c_mode: CMode, relu: bool,
    edge: int | None, acc_width: int, operand_width: int,
) -> tuple[np.ndarray, np.ndarray | None]:  # fmt: skip
    """``x``, which is changed in place, with its C operand added or subtracted; where the result is low.

    A low result is zero, or scaled by the slope; None where none can be. A mask lets pass what is below its ``edge``,
    where there is one.
    """
    if c_mode in (CMode.ADD, CMode.ADD_MASK, CMode.SUB):
        assert c is not None
        other = requantise(c.astype(np.int64), shift, acc_width)
        (np.subtract if c_mode == CMode.SUB else np.add)(x, other, out=x)
    low = x < 0 if relu else None
    if c_mode == CMode.MASK:
        assert c is not None
        low = c <= 0 if low is None else low | (c <= 0)
        if edge is not None:
            np.putmask(x, c >= edge, 0)
    if c_mode == CMode.ADD_MASK:
        assert c is not None and d is not None
        masked = (d <= 0) | (c == unpredicted(operand_width))
        low = masked if low is None else low | masked
    return x, low
