"""A queue of two items in registers alone, for items that have stood at its input for a cycle."""

from amaranth import Assert, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["StandingQueue"]


class StandingQueue(wiring.Component):
    """A first-in first-out queue of two items, with the ports of Amaranth's queues.

    No bit passes a multiplexer: the register at the input follows it until an item stays there, so an item that is
    written is in that register already, and may go on to the register at the output.

    Parameters
    ----------
    width
        bits of an item

    Members
    -------
    w_rdy, w_en, w_data : Out, In, In
        an item is written in cycles with ``w_en``; only if ``w_rdy`` and ``w_data`` were the same the cycle before
    r_rdy, r_en, r_data : Out, In, Out
        the first item, while ``r_rdy``; ``r_en`` removes it
    level : Out(range(3))
        items in the queue

    Timing
    ------
    An item can be read a cycle after it was written.
    """

    DEPTH = 2

    def __init__(self, width: int):
        super().__init__({
            "w_rdy": Out(1), "w_en": In(1), "w_data": In(width), "r_rdy": Out(1), "r_en": In(1), "r_data": Out(width),
            "level": Out(range(self.DEPTH + 1)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        stays = Signal()  # an item stays at the input
        near, far = (Signal.like(self.w_data, name=name, reset_less=True) for name in ("near", "far"))
        m.d.comb += [self.w_rdy.eq(~stays), self.r_data.eq(far), self.level.eq(stays + self.r_rdy)]
        with m.If(~stays):
            m.d.sync += near.eq(self.w_data)
        with m.If(~self.r_rdy | self.r_en):
            m.d.sync += [far.eq(near), self.r_rdy.eq(stays | self.w_en), stays.eq(0)]
        with m.Elif(self.w_en):
            m.d.sync += stays.eq(1)
        with m.If(self.w_en):
            m.d.sync += Assert(~stays & (near == self.w_data), "an item is written that hasn't stood")
        return m
