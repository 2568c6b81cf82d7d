"""The bit length of a magnitude."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BitLength"]


class BitLength(wiring.Component):
    """``o``: the position of the highest 1 of ``i``, counted from 1, ``LATENCY`` cycles later, free-running.

    By halving: the upper half if it has a 1, else the lower one, a choice per bit of the answer, some in each cycle.
    """

    LATENCY = 3

    def __init__(self, width: int):
        super().__init__({"i": In(width), "o": Out(range(width + 1))})

    def elaborate(self, platform):
        m = Module()
        levels = (len(self.i) - 1).bit_length()
        value, choices = self.i, Signal(0)
        ends = [levels - levels * stage // self.LATENCY for stage in range(1, self.LATENCY + 1)]
        for level in reversed(range(levels)):
            half = 1 << level
            rest, upper = Signal(half), Signal()
            m.d.comb += [upper.eq(value[half:].any()), rest.eq(Mux(upper, value[half:], value[:half]))]
            value, choices = rest, Cat(upper, choices)
            for _ in range(ends[:-1].count(level)):
                value, choices = self._registered(m, value), self._registered(m, choices)
        m.d.sync += self.o.eq(choices + value)
        return m

    def _registered(self, m, value):
        stage = Signal(len(value))
        m.d.sync += stage.eq(value)
        return stage
