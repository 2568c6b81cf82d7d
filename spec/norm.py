"""Batch norm's tables in memory: sums, parameters, constants and running statistics of channels.

A table has *planes*, vectors of a number of each channel: ``[plane][channel]``. A number takes one or more planes of
digits, the least first: 15 bits each, and the last one signed. So no digit is the least operand, and tables pass
through the datapath as other operands do.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .commands import Opcode
from .numerics import operand_max

__all__ = [
    "APPLY_PLANES", "BACKWARD_ROW", "DIGIT_BITS", "FORWARD_ROW", "GRADIENT_PLANES", "KEPT_PLANES",
    "LEAST_EXPONENT", "MAX_VALUES",
    "MOMENTUM_BITS", "STATE_ROW", "SUMS_ROW", "SUM_DIGITS", "TABLES", "WEIGHT_PLANES", "ZERO",
    "NormConstants", "Number", "Row", "State", "planes",
]  # fmt: skip

DIGIT_BITS = 15
SUM_DIGITS = 4
"""Digits of an accumulator."""

Row = Mapping[str, tuple[int, int]]
"""Numbers of a channel by name, each with its first plane and its digits."""

SUMS_ROW: Row = {"second": (0, SUM_DIGITS), "first": (SUM_DIGITS, SUM_DIGITS)}
"""Sums of x * x and of x, or of g * x and of g."""

FORWARD_ROW: Row = {
    "b": (0, 4), "a": (4, 2), "a_exponent": (6, 1), "inverse": (7, 2), "inverse_exponent": (9, 1), "sum": (10, 3),
}  # fmt: skip
"""Constants of the forward pass."""

APPLY_PLANES = 7
"""The first planes of these, which values need."""

KEPT_PLANES = 10
"""The last planes of these, in which the backward pass finds all that it needs."""

BACKWARD_ROW: Row = {"q": (0, 2), "q_shift": (2, 1), "r": (3, 4), "p": (7, 2), "p_exponent": (9, 1)}
"""Constants of the backward pass. They end as those of the forward pass that values need."""

STATE_ROW: Row = {"mean": (0, 3), "mean_exponent": (3, 1), "variance": (4, 3), "variance_exponent": (7, 1)}
"""Running statistics: value = mantissa * 2^exponent."""

WEIGHT_PLANES = GRADIENT_PLANES = 2
"""Gamma and beta, which are operands; and their gradients."""

LEAST_EXPONENT = -operand_max(16)
"""Exponent of a number in floating point that is 0."""

MAX_VALUES = 1 << 24
"""Most values of a channel in a batch."""

MOMENTUM_BITS = 16
"""Fraction bits of the momentum of running statistics."""


@dataclass(frozen=True)
class Number:
    """``mantissa * 2^exponent``."""

    mantissa: int
    exponent: int


ZERO = Number(0, LEAST_EXPONENT)
"""A number in floating point that is 0."""


@dataclass(frozen=True)
class NormConstants:
    """Constants of a command: values a channel, epsilon * n^2, momentum * 2^16, and momentum / (n * (n - 1)).

    Where the running statistics are used n is 1. The mantissas of the numbers are unsigned, of 16 bits.
    """

    n: int
    epsilon: Number
    momentum: int
    unbiased: Number


@dataclass(frozen=True)
class State:
    """Running mean and variance of a channel."""

    mean: Number
    variance: Number


def planes(row: Row) -> int:
    """Planes of a table."""
    return sum(digits for _, digits in row.values())


TABLES = {
    Opcode.NORM_CONSTANTS: (
        planes(SUMS_ROW) + WEIGHT_PLANES + planes(STATE_ROW), planes(FORWARD_ROW) + planes(STATE_ROW),
    ),
    Opcode.NORM_RUNNING: (WEIGHT_PLANES + planes(STATE_ROW), planes(FORWARD_ROW)),
    Opcode.NORM_BACKWARD: (planes(SUMS_ROW) + KEPT_PLANES, GRADIENT_PLANES + planes(BACKWARD_ROW)),
}  # fmt: skip
"""Planes that the commands of channels without values read, and planes that they make."""
