"""Counting tokens, by which two engines agree who may use a buffer."""

from amaranth import Assert, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from .interfaces import Token

__all__ = ["TokenCounter"]


class TokenCounter(wiring.Component):
    """Counts tokens: ``initial`` at reset, never more than ``maximum``.

    Parameters
    ----------
    initial
        tokens at reset
    maximum
        most tokens there may be

    Members
    -------
    give : In(1)
        add a token
    take : In(Token())
        remove one with ``take.take``, only while ``take.avail``

    Raises
    ------
    ValueError
        unless ``0 <= initial <= maximum`` and ``1 <= maximum``

    Timing
    ------
    A token given in one cycle is available from the next; one may be given and one taken in the same cycle.
    """

    def __init__(self, initial: int, maximum: int):
        if not (maximum >= 1 and 0 <= initial <= maximum):
            raise ValueError(f"tokens must satisfy 0 <= initial <= maximum >= 1, not {initial!r}, {maximum!r}")
        self.initial = initial
        self.maximum = maximum
        super().__init__({"give": In(1), "take": In(Token())})

    def elaborate(self, platform):
        m = Module()
        count = Signal(range(self.maximum + 1), init=self.initial)
        m.d.comb += self.take.avail.eq(count != 0)
        m.d.sync += count.eq(count + self.give - self.take.take)
        with m.If(self.take.take):
            m.d.sync += Assert(self.take.avail, "a token was taken that wasn't there")
        with m.If(self.give & ~self.take.take):
            m.d.sync += Assert(count != self.maximum, "more tokens were given than there are")
        return m
