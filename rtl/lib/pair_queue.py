"""A queue of two wide items in registers whose enables are registers."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PairQueue"]


class PairQueue(wiring.Component):
    """A first-in first-out queue of two items, for items so wide that an enable of their registers must be one itself.

    Parameters
    ----------
    width
        bits of an item

    Members
    -------
    w_rdy, w_en, w_data : Out, In, In
        an item is taken in cycles with ``w_rdy`` and ``w_en``
    r_rdy, r_en, r_data : Out, In, Out
        while ``r_rdy`` there is a first item, in ``r_data`` from a cycle later on; ``r_en`` removes it
    level : Out(range(3))
        items in the queue

    Timing
    ------
    ``r_rdy`` rises two cycles after an item was written, or after the one before it was removed; an item every three
    cycles.
    """

    def __init__(self, width: int):
        super().__init__({
            "w_rdy": Out(1, init=1), "w_en": In(1), "w_data": In(width),
            "r_rdy": Out(1), "r_en": In(1), "r_data": Out(width), "level": Out(range(3)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        near, far = (Signal.like(self.w_data, name=name, reset_less=True) for name in ("near", "far"))
        moves = Signal()
        decided = Signal()  # the item moves in the next cycle
        m.d.comb += [
            decided.eq(~self.w_rdy & ~self.r_rdy), self.r_data.eq(far),
            self.level.eq(self.r_rdy + ~(self.w_rdy | moves)),
        ]  # fmt: skip
        m.d.sync += moves.eq(decided)
        with m.If(self.w_rdy):
            m.d.sync += [near.eq(self.w_data), self.w_rdy.eq(~self.w_en)]
        with m.If(moves):
            m.d.sync += [far.eq(near), self.w_rdy.eq(1)]
        with m.If(decided):
            m.d.sync += self.r_rdy.eq(1)
        with m.Elif(self.r_en):
            m.d.sync += self.r_rdy.eq(0)
        return m
