"""The maximum a result tensor leaves to its shadow exponent."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .interfaces import ResultLayout

__all__ = ["Tracker", "bit_length"]


def _halved(m: Module, value, turns: int):
    """The upper half of ``value`` if it has a 1, else the lower one, so many times; the choices, the first on top."""
    choices = []
    levels = (len(value) - 1).bit_length()
    for level in range(levels - 1, levels - 1 - turns, -1):
        half = 1 << level
        rest = Signal(half)
        upper = value[half:].any()
        m.d.comb += rest.eq(Mux(upper, value[half:], value[:half]))
        choices.insert(0, upper)
        value = rest
    return value, Cat(choices)


def bit_length(m: Module, value):
    """Position of the highest 1, counted from 1."""
    rest, choices = _halved(m, value, (len(value) - 1).bit_length())
    return choices + rest


class Tracker(wiring.Component):
    """Gathers ``top`` = max bit_length + exponent of the magnitudes seen since ``clear``.

    ``i`` is the OR of any number of magnitudes of ``width`` bits, taken every cycle (0 changes nothing).
    ``result`` holds everything taken up to LATENCY cycles ago; ``exponent`` and ``id`` pass to it directly.
    """

    LATENCY = 3

    def __init__(self, width: int):
        super().__init__({
            "clear": In(1), "i": In(width), "id": In(8), "exponent": In(signed(10)), "result": Out(ResultLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        seen = Signal.like(self.i)
        levels = (len(seen) - 1).bit_length()
        part, upper = _halved(m, seen, levels // 2)
        s1_part, s1_upper = Signal.like(part), Signal.like(upper)
        bit, lower = _halved(m, s1_part, levels - levels // 2)
        length = Signal(range(len(seen) + 1))
        m.d.sync += [
            seen.eq(Mux(self.clear, 0, seen | self.i)),
            s1_part.eq(Mux(self.clear, 0, part)), s1_upper.eq(Mux(self.clear, 0, upper)),
            length.eq(Mux(self.clear, 0, Cat(lower, s1_upper) + bit)),
        ]  # fmt: skip
        m.d.comb += [
            self.result.id.eq(self.id),
            self.result.nonzero.eq(length != 0),
            self.result.top.eq(length + self.exponent),
        ]
        return m
