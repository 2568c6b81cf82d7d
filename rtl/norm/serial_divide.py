"""Integer division, a bit a cycle, begun at any time."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SerialDivide"]


class SerialDivide(wiring.Component):
    """``o`` = ``i // by``, which must fit.

    Parameters
    ----------
    width, divisor_width, quotient_width
        bits of ``i``, ``by`` and ``o``

    Members
    -------
    start : In(1)
        take ``i`` and ``by``; only while ``ready``
    i : In(width)
        the dividend
    by : In(divisor_width)
        the divisor, not 0
    ready : Out(1, init=1)
        the quotient is there
    o : Out(quotient_width)
        the quotient, until the next ``start``

    Raises
    ------
    ValueError : a dividend whose upper part is wider than the divisor

    Timing
    ------
    ``ready`` comes ``quotient_width`` + 1 cycles after ``start``.
    """

    def __init__(self, width: int, divisor_width: int, quotient_width: int):
        if width - quotient_width > divisor_width:
            raise ValueError(f"width must be at most {divisor_width + quotient_width}, not {width!r}")
        super().__init__({
            "start": In(1), "i": In(width), "by": In(divisor_width), "ready": Out(1, init=1), "o": Out(quotient_width),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        bits = len(self.o)
        rest, by, left = Signal(len(self.by)), Signal(len(self.by)), Signal(range(bits + 1))
        taken, difference = Signal(len(self.by) + 1), Signal(len(self.by) + 2)
        m.d.comb += [taken.eq(Cat(self.o[-1], rest)), difference.eq(taken - by)]
        less = difference[-1]
        with m.If(self.start):
            m.d.sync += [
                rest.eq(self.i[bits:]), self.o.eq(self.i[:bits]), by.eq(self.by), left.eq(bits), self.ready.eq(0),
            ]  # fmt: skip
        with m.Elif(~self.ready):
            m.d.sync += [
                rest.eq(Mux(less, taken, difference)), self.o.eq(Cat(~less, self.o)), left.eq(left - 1),
                self.ready.eq(left == 1),
            ]  # fmt: skip
        return m
