"""A queue of two wide items in registers whose enables are registers."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PairQueue"]


class PairQueue(wiring.Component):
    """A first-in first-out queue of two items, with the ports of Amaranth's queues.

    An enable of so many registers is late if it is computed in the cycle in which it is used.

    Parameters
    ----------
    width
        bits of an item

    Members
    -------
    w_rdy, w_en, w_data : Out, In, In
        an item is taken in cycles with ``w_rdy`` and ``w_en``
    r_rdy, r_en, r_data : Out, In, Out
        the first item, while ``r_rdy``; ``r_en`` removes it
    soon : Out(1)
        ``r_rdy`` of the next cycle, unless the item is removed in this one

    Timing
    ------
    An item can be read three cycles after it was written, at most one every three cycles.
    """

    def __init__(self, width: int):
        super().__init__({
            "w_rdy": Out(1, init=1), "w_en": In(1), "w_data": In(width), "r_rdy": Out(1), "r_en": In(1),
            "r_data": Out(width), "soon": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        near, far = (Signal.like(self.w_data, name=name, reset_less=True) for name in ("near", "far"))
        moves = Signal()
        m.d.sync += moves.eq(~self.w_rdy & ~self.r_rdy & ~moves)
        m.d.comb += [self.r_data.eq(far), self.soon.eq(self.r_rdy | moves)]
        with m.If(self.w_rdy):
            m.d.sync += [near.eq(self.w_data), self.w_rdy.eq(~self.w_en)]
        with m.If(moves):
            m.d.sync += [far.eq(near), self.w_rdy.eq(1), self.r_rdy.eq(1)]
        with m.If(self.r_en):
            m.d.sync += self.r_rdy.eq(0)
        return m
