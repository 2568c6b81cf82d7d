"""The maximum a result tensor leaves to its shadow exponent."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .interfaces import ResultLayout

__all__ = ["Tracker", "bit_length"]


def bit_length(m: Module, value):
    """Position of the highest 1, counted from 1, by halving: a multiplexer per bit of the answer."""
    levels = (len(value) - 1).bit_length()
    position = []
    for level in reversed(range(levels)):
        half = 1 << level
        rest = Signal(half)
        upper = value[half:].any()
        m.d.comb += rest.eq(Mux(upper, value[half:], value[:half]))
        position.append(Mux(upper, half, 0))
        value = rest
    return sum(position) + value[0]


class Tracker(wiring.Component):
    """Gathers ``top`` = max bit_length + exponent of the magnitudes seen since ``clear``.

    ``i`` is the OR of any number of magnitudes of ``width`` bits, taken every cycle (0 changes nothing).
    ``result`` holds everything taken up to 2 cycles ago; ``exponent`` and ``id`` pass to it directly.
    """

    LATENCY = 2

    def __init__(self, width: int):
        super().__init__({
            "clear": In(1), "i": In(width), "id": In(8), "exponent": In(signed(10)), "result": Out(ResultLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        seen = Signal.like(self.i)
        length = Signal(range(len(seen) + 1))
        m.d.sync += [
            seen.eq(Mux(self.clear, 0, seen | self.i)),
            length.eq(Mux(self.clear, 0, bit_length(m, seen))),
        ]
        m.d.comb += [
            self.result.id.eq(self.id),
            self.result.nonzero.eq(length != 0),
            self.result.top.eq(length + self.exponent),
        ]
        return m
