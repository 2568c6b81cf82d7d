"""Integer division with a saturated quotient, some of its bits in each stage."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .folded import captured

__all__ = ["Divide"]


class Divide(wiring.Component):
    """``o`` = min(``i // by``, 2^quotient_width - 1), ``latency`` cycles later; ``by`` must not be 0.

    ``i`` and ``by`` are taken with ``start``, every ``fold`` cycles; ``o`` stands as long. A cycle tells whether the
    quotient saturates; then a stage makes ``fold`` of its bits, one a cycle.
    """

    def __init__(self, width: int, divisor_width: int, quotient_width: int, fold: int):
        self._fold = fold
        self.latency = quotient_width + 1
        super().__init__({"start": In(1), "i": In(width), "by": In(divisor_width), "o": Out(quotient_width)})

    def elaborate(self, platform):
        m = Module()
        bits = len(self.o)
        above = self.i >> bits
        over, by, following = above >= self.by, self.by, (above, self.i[:bits])
        for at in range(0, bits, self._fold):
            rest = Signal.like(self.by, name=f"s{at}_rest", reset_less=True)
            digits = Signal(bits, name=f"s{at}_digits", reset_less=True)  # of the dividend, then of the quotient
            stage_by, stage_over = Signal.like(by, name=f"s{at}_by", reset_less=True), Signal(reset_less=True)
            from_rest, from_digits = following
            taken = Cat(digits[-1], rest)
            difference = Signal(len(taken) + 1, name=f"s{at}_difference")
            m.d.comb += difference.eq(taken - stage_by)
            less = difference[-1]
            following = Mux(less, taken, difference)[: len(rest)], Cat(stage_over | ~less, digits[:-1])
            m.d.sync += [
                rest.eq(Mux(self.start, from_rest, following[0])),
                digits.eq(Mux(self.start, from_digits, following[1])),
            ]
            with m.If(self.start):
                m.d.sync += [stage_by.eq(by), stage_over.eq(over)]
            over, by = stage_over, stage_by
        m.d.comb += self.o.eq(captured(m, following[1], self.start, bits, self._fold))
        return m
