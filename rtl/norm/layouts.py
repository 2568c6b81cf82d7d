"""Numbers that enter and leave the making of a channel's constants, and steps that are operations."""

from contextlib import contextmanager

from amaranth import Cat, Module, Mux, Value, signed
from amaranth.lib import data, enum

from ...spec.norm import DIGIT_BITS, Row
from ...spec.numerics import SHIFT_MAX, SHIFT_MIN
from .serial_arithmetic import AMOUNT_WIDTH, SerialArithmetic

__all__ = [
    "N_WIDTH", "ROOT_WIDTH", "WIDE", "BackwardLayout", "CommandLayout", "ForwardLayout", "StateLayout", "Steps", "Task",
    "clamped", "digits_of", "magnitude", "number",
]  # fmt: skip

WIDE = signed(AMOUNT_WIDTH)
"""Exponents while they are computed with."""
EXPONENT = signed(16)
OPERAND_EXPONENT = signed(8)
ROOT_WIDTH, N_WIDTH = 24, 25

CommandLayout = data.StructLayout({
    "n": N_WIDTH, "epsilon": 16, "epsilon_exponent": OPERAND_EXPONENT, "momentum": 16, "unbiased": 16,
    "unbiased_exponent": OPERAND_EXPONENT, "w_exponent": OPERAND_EXPONENT, "x_exponent": OPERAND_EXPONENT,
    "g_exponent": OPERAND_EXPONENT,
})  # fmt: skip
"""The numbers that all channels of a command share."""

StateLayout = data.StructLayout({
    "mean": signed(32), "mean_exponent": EXPONENT, "variance": signed(32), "variance_exponent": EXPONENT,
})  # fmt: skip

ForwardLayout = data.StructLayout({
    "a": signed(17), "a_exponent": EXPONENT, "b": signed(47), "inverse": ROOT_WIDTH, "inverse_exponent": EXPONENT,
    "sum": signed(40),
})  # fmt: skip
"""The forward row."""

BackwardLayout = data.StructLayout({
    "p": signed(17), "p_exponent": EXPONENT, "r": signed(48), "q": signed(17), "q_shift": 4, "gradient": signed(48),
    "gradient_exponent": signed(17),
})  # fmt: skip
"""The backward row, and the gradient of gamma."""


class Task(enum.Enum, shape=2):
    """The results to make, and from which inputs."""

    BATCH = 0
    """The forward row from the batch's sums, and running statistics."""
    RUNNING = 1
    """The forward row from running statistics."""
    BACKWARD = 2
    """The backward row from sums of gradients and the forward row."""


def magnitude(value):
    """The magnitude of a signed value that isn't the least one."""
    return Mux(value < 0, -value, value)[: len(value)]


def number(digits, row: Row, name: str, at: int = 0) -> Value:
    """A number out of the ``digits`` of a row, which begins at digit ``at``."""
    first, count = row[name]
    places = [digits[at + first + place] for place in range(count)]
    return Cat(*(place[:DIGIT_BITS] for place in places[:-1]), places[-1]).as_signed()


def digits_of(row: Row, values: dict[str, Value]) -> list[Value]:
    """The digits of a row, plane by plane."""
    digits = []
    for name, (_, count) in row.items():
        value = values[name]
        for digit in range(count - 1):
            digits.append((value >> DIGIT_BITS * digit)[:DIGIT_BITS])
        digits.append(value >> DIGIT_BITS * (count - 1))
    return digits


def clamped(shift: Value) -> Value:
    """A shift as far as the epilogue shifts."""
    return Mux(shift < SHIFT_MIN, SHIFT_MIN, Mux(shift > SHIFT_MAX, SHIFT_MAX, shift))


class Steps:
    """States of a machine that each start one operation of ``arithmetic`` and wait for it."""

    def __init__(self, m: Module, arithmetic: SerialArithmetic):
        self.m, self.arithmetic = m, arithmetic

    @contextmanager
    def step(self, name: str, following: str, kind, **inputs):
        """The step ``name``; the body is done in the cycle after its end."""
        self.at_once(name, f"{name}_ENDS", kind, **inputs)
        m = self.m
        with m.State(f"{name}_ENDS"), m.If(self.arithmetic.ready):
            yield
            m.next = following

    def at_once(self, name: str, following: str, kind, **inputs):
        """The step ``name``, of one cycle."""
        m, arithmetic = self.m, self.arithmetic
        with m.State(name):
            m.d.comb += [arithmetic.start.eq(1), arithmetic.kind.eq(kind)]
            m.d.comb += [getattr(arithmetic, port).eq(value) for port, value in inputs.items()]
            m.next = following
