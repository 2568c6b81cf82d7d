"""The bit length of a magnitude."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BitLength"]


class BitLength(wiring.Component):
    """Position of a magnitude's highest 1, counted from 1; 0 for 0.

    It halves: the upper half if that has a 1, else the lower one. Each choice is a bit of the answer.

    Parameters
    ----------
    width
        bits of ``i``

    Members
    -------
    i : In(width)
        the magnitude
    o : Out(range(width + 1))
        its bit length

    Raises
    ------
    ValueError : ``width`` has fewer levels than there are stages

    Timing
    ------
    Free-running: ``o`` follows ``LATENCY`` cycles after ``i``, a new one every cycle.
    """

    LATENCY = 3

    def __init__(self, width: int):
        if (width - 1).bit_length() < self.LATENCY:
            raise ValueError(f"width must be at least {(1 << self.LATENCY - 1) + 1}, not {width!r}")
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
