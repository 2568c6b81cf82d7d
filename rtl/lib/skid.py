"""A buffer of two items for a stream, which cuts the path of ready."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .delay import registered

__all__ = ["Skid"]


class Skid(wiring.Component):
    """Holds up to two items between two streams. Neither side's ready depends on the other's in the same cycle.

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
    Latency 1; an item every cycle.
    """

    ITEMS = 2

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        spare = Signal.like(self.i.payload, reset_less=True)
        ready = Signal(init=1)  # while the spare register is free
        m.d.comb += self.i.ready.eq(ready)
        with m.If(ready):
            m.d.sync += spare.eq(self.i.payload)
        moves = ~self.o.valid | self.o.ready
        registered(m, self.o.payload, Mux(ready, self.i.payload, spare), moves)
        with m.If(moves):
            m.d.sync += [self.o.valid.eq(self.i.valid | ~ready), ready.eq(1)]
        with m.Elif(self.i.valid):
            m.d.sync += ready.eq(0)
        return m
