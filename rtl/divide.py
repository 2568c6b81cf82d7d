"""Integer division with a saturated quotient, pipelined."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .delay import delayed

__all__ = ["Divide"]


class Divide(wiring.Component):
    """``o`` = min(``i // by``, 2^quotient_width - 1), free-running, ``latency`` cycles later; ``by`` must not be 0.

    A stage tells whether the quotient saturates, one more for each of its bits develops it.
    """

    def __init__(self, width: int, divisor_width: int, quotient_width: int):
        self.latency = quotient_width + 1
        super().__init__({"i": In(width), "by": In(divisor_width), "o": Out(quotient_width)})

    def elaborate(self, platform):
        m = Module()
        bits = len(self.o)
        rest = Signal.like(self.by, name="s0_rest", reset_less=True)
        by = Signal.like(self.by, name="s0_by", reset_less=True)
        digits = Signal(bits, name="s0_digits", reset_less=True)  # of the dividend, then of the quotient
        over = Signal(name="s0_over", reset_less=True)
        m.d.sync += [
            rest.eq(self.i >> bits), digits.eq(self.i), by.eq(self.by), over.eq((self.i >> bits) >= self.by),
        ]  # fmt: skip
        for n in range(1, bits + 1):
            taken = Cat(digits[-1], rest)
            difference = Signal(len(taken) + 1, name=f"difference{n}")
            m.d.comb += difference.eq(taken - by)
            less = difference[-1]
            next_rest = Signal.like(rest, name=f"s{n}_rest")
            next_digits = Signal.like(digits, name=f"s{n}_digits")
            m.d.sync += [
                next_rest.eq(Mux(less, taken, difference)), next_digits.eq(Cat(over | ~less, digits[:-1])),
            ]  # fmt: skip
            rest, digits, by, over = next_rest, next_digits, delayed(m, by, 1), delayed(m, over, 1)
        m.d.comb += self.o.eq(digits)
        return m
