"""A register for one item of a stream."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .delay import registered

__all__ = ["RegisterSlice"]


class RegisterSlice(wiring.Component):
    """Holds one item between two streams; takes the next one in the cycle after it has gone.

    Neither side's ready depends on the other's in the same cycle.

    Parameters
    ----------
    shape
        shape of an item

    Members
    -------
    i, o : In, Out
        the streams

    Timing
    ------
    Latency 1; an item every two cycles.
    """

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        free = Signal(init=1)  # the inverse of ``o.valid``: each stays near its side
        m.d.comb += self.i.ready.eq(free)
        taken = self.i.valid & self.i.ready
        registered(m, self.o.payload, self.i.payload, free)  # straight from a register, however wide the item
        with m.If(taken):
            m.d.sync += [self.o.valid.eq(1), free.eq(0)]
        with m.Elif(self.o.ready):
            m.d.sync += [self.o.valid.eq(0), free.eq(1)]
        return m
