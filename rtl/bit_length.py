"""The bit length of a magnitude."""

from itertools import pairwise

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BitLength"]


class BitLength(wiring.Component):
    """``o``: the position of the highest 1 of ``i``, counted from 1, ``LATENCY`` cycles later, free-running.

    By halving: the upper half if it has a 1, else the lower one, a choice per bit of the answer, some in each cycle:
    first which of the blocks that one of them will be left of have a 1.
    """

    LATENCY = 3

    def __init__(self, width: int):
        super().__init__({"i": In(width), "o": Out(range(width + 1))})

    def elaborate(self, platform):
        m = Module()
        levels = (len(self.i) - 1).bit_length()
        value, choices = self.i, Signal(0)
        ends = [levels - levels * stage // self.LATENCY for stage in range(1, self.LATENCY + 1)]
        for begin, end in pairwise([levels, *ends]):
            blocks = Cat(value[at : at + (1 << end)].any() for at in range(0, 1 << begin, 1 << end))
            for level in reversed(range(end, begin)):
                half, half_blocks = 1 << level, 1 << (level - end)
                rest, upper, rest_blocks = Signal(half), Signal(), Signal(half_blocks)
                m.d.comb += [
                    upper.eq(blocks[half_blocks:].any()), rest.eq(Mux(upper, value[half:], value[:half])),
                    rest_blocks.eq(Mux(upper, blocks[half_blocks:], blocks[:half_blocks])),
                ]  # fmt: skip
                value, blocks, choices = rest, rest_blocks, Cat(upper, choices)
            if end:
                value, choices = self._registered(m, value), self._registered(m, choices)
        m.d.sync += self.o.eq(choices + value)
        return m

    def _registered(self, m, value):
        stage = Signal(len(value))
        m.d.sync += stage.eq(value)
        return stage
