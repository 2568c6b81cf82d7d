"""Integer division with a saturated quotient, several bits in each stage."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .multicycle import Multicycle

__all__ = ["Divide"]


class Divide(wiring.Component):
    """``o`` = min(``i // by``, 2^quotient_width - 1).

    A stage makes ``fold`` bits, one a cycle.

    Parameters
    ----------
    width, divisor_width, quotient_width
        bits of ``i``, ``by`` and ``o``
    fold
        cycles between two divisions

    Members
    -------
    start : In(1)
        take ``i``; at most every ``fold`` cycles
    i : In(width)
        the dividend
    by : In(divisor_width)
        the divisor, not 0; taken in the cycle before ``start``
    o : Out(quotient_width)
        the quotient; stands for ``fold`` cycles

    Attributes
    ----------
    latency
        cycles from ``start`` to ``o``, one for each bit of ``o``

    Timing
    ------
    Latency ``quotient_width`` cycles; a division every ``fold`` cycles.
    """

    def __init__(self, width: int, divisor_width: int, quotient_width: int, fold: int):
        self._fold = fold
        self.latency = quotient_width
        super().__init__({"start": In(1), "i": In(width), "by": In(divisor_width), "o": Out(quotient_width)})

    def elaborate(self, platform):
        m = Module()
        fold = Multicycle(m, self.start, self._fold)
        bits = len(self.o)
        rest, digits = self.i >> bits, self.i[:bits]
        by, over = self.by, None
        for at in range(0, bits, self._fold):
            before, by = by, Signal.like(self.by, name=f"s{at}_by", reset_less=True)
            with m.If(fold.after(-1)):
                m.d.sync += by.eq(before)
            over, now_over = fold.register(1, f"s{at}_over", rest >= by if over is None else over)
            rest, now_rest = fold.register(len(by), f"s{at}_rest", rest)
            digits, now_digits = fold.register(bits, f"s{at}_digits", digits)  # dividend, then quotient
            taken = Cat(now_digits[-1], now_rest)
            difference = Signal(len(taken) + 1, name=f"s{at}_difference")
            m.d.comb += difference.eq(taken - by)
            less = difference[-1]
            following = Cat(~less, now_digits[:-1])
            m.d.sync += [rest.eq(Mux(less, taken, difference)), digits.eq(following), over.eq(now_over)]
        with m.If(fold.after(bits - 1)):
            m.d.sync += self.o.eq(following | now_over.replicate(bits))
        return m
