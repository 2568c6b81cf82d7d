"""Integer square root, some of its bits in each stage."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .folded import captured

__all__ = ["Root"]


class Root(wiring.Component):
    """``o`` = the integer part of the root of ``i``, ``latency`` cycles later: one a bit of ``o``, and one.

    ``i`` is taken with ``start``, every ``fold`` cycles; ``o`` stands as long. A stage makes ``fold`` bits, one a
    cycle. Raises ValueError if ``width``, that of ``i``, is odd.
    """

    def __init__(self, width: int, fold: int):
        if width % 2 or width < 2:
            raise ValueError(f"the width of a radicand must be even, not {width!r}")
        self._fold = fold
        self.latency = width // 2 + 1
        super().__init__({"start": In(1), "i": In(width), "o": Out(width // 2)})

    def elaborate(self, platform):
        m = Module()
        bits = len(self.o)
        following = (self.i, Const(0, 1), Const(0, 1))
        for at in range(0, bits, self._fold):
            behind = min(at + self._fold, bits)
            digits = Signal(len(self.i) - 2 * at, name=f"s{at}_digits", reset_less=True)
            rest = Signal(behind + 1, name=f"s{at}_rest", reset_less=True)  # at most twice the root
            root = Signal(behind, name=f"s{at}_root", reset_less=True)
            from_digits, from_rest, from_root = following
            taken = Cat(digits[-2:], rest)
            difference = Signal(len(taken) + 1, name=f"s{at}_difference")
            m.d.comb += difference.eq(taken - Cat(Const(1, 2), root))
            less = difference[-1]
            next_rest = Mux(less, taken, difference)[: len(rest)]
            following = Cat(Const(0, 2), digits[:-2]), next_rest, Cat(~less, root[:-1])
            m.d.sync += [
                digits.eq(Mux(self.start, from_digits[-len(digits) :], following[0])),
                rest.eq(Mux(self.start, from_rest, following[1])),
                root.eq(Mux(self.start, from_root, following[2])),
            ]
        m.d.comb += self.o.eq(captured(m, following[2], self.start, bits, self._fold))
        return m
