"""Integer square root, several bits in each stage."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .multicycle import Multicycle

__all__ = ["SquareRoot"]


class SquareRoot(wiring.Component):
    """``o`` = the integer part of the root of ``i``. A stage makes ``fold`` bits, one a cycle.

    Parameters
    ----------
    width
        bits of ``i``
    fold
        cycles between two roots

    Members
    -------
    start : In(1)
        take ``i``; at most every ``fold`` cycles
    i : In(width)
        the radicand
    o : Out(width // 2)
        the root; stands for ``fold`` cycles

    Attributes
    ----------
    latency
        cycles from ``start`` to ``o``, one for each bit of ``o``

    Raises
    ------
    ValueError
        ``width`` is odd or less than 2

    Timing
    ------
    Latency ``width // 2`` cycles; a root every ``fold`` cycles.
    """

    def __init__(self, width: int, fold: int):
        if width % 2 or width < 2:
            raise ValueError(f"the width of a radicand must be even, not {width!r}")
        self._fold = fold
        self.latency = width // 2
        super().__init__({"start": In(1), "i": In(width), "o": Out(width // 2)})

    def elaborate(self, platform):
        m = Module()
        fold = Multicycle(m, self.start, self._fold)
        digits, rest, root = self.i, Const(0, 1), Const(0, 1)
        for at in range(0, self.latency, self._fold):
            bits = min(at + self._fold, self.latency)
            digits, now_digits = fold.register(
                len(self.i) - 2 * at, f"s{at}_digits", digits[2 * self._fold * (at > 0) :]
            )
            rest, now_rest = fold.register(bits + 1, f"s{at}_rest", rest)  # at most twice the root
            root, now_root = fold.register(bits, f"s{at}_root", root)
            taken = Cat(now_digits[-2:], now_rest)
            difference = Signal(len(taken) + 1, name=f"s{at}_difference")
            m.d.comb += difference.eq(taken - Cat(Const(1, 2), now_root))
            less = difference[-1]
            following = Cat(~less, now_root[:-1])
            m.d.sync += [digits.eq(now_digits << 2), rest.eq(Mux(less, taken, difference)), root.eq(following)]
        with m.If(fold.after(self.latency - 1)):
            m.d.sync += self.o.eq(following)
        return m
