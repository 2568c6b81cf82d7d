"""Integer square root, pipelined."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Root"]


class Root(wiring.Component):
    """``o`` = the integer part of the root of ``i``, free-running, ``latency`` cycles later: one a bit of ``o``.

    Raises ValueError if ``width``, that of ``i``, is odd.
    """

    def __init__(self, width: int):
        if width % 2 or width < 2:
            raise ValueError(f"the width of a radicand must be even, not {width!r}")
        self.latency = width // 2
        super().__init__({"i": In(width), "o": Out(width // 2)})

    def elaborate(self, platform):
        m = Module()
        digits, rest, root = self.i, Const(0, 1), Const(0, 0)
        for n in range(self.latency):
            taken = Cat(digits[-2:], rest)
            difference = Signal(n + 4, name=f"difference{n}")
            m.d.comb += difference.eq(taken - Cat(Const(1, 2), root))
            less = difference[-1]
            next_digits = Signal(len(digits) - 2, name=f"s{n}_digits", reset_less=True)
            next_rest = Signal(n + 2, name=f"s{n}_rest", reset_less=True)  # at most twice the root
            next_root = Signal(n + 1, name=f"s{n}_root", reset_less=True)
            m.d.sync += [
                next_digits.eq(digits), next_rest.eq(Mux(less, taken, difference)), next_root.eq(Cat(~less, root)),
            ]  # fmt: skip
            digits, rest, root = next_digits, next_rest, next_root
        m.d.comb += self.o.eq(root)
        return m
