"""A queue behind a pipeline that can't wait: what begins is counted against the room at its end."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["RoomQueue"]


class RoomQueue(wiring.Component):
    """Holds ``depth`` items that left a pipeline, and tells whether another may enter the pipeline.

    Parameters
    ----------
    shape
        shape of an item
    depth
        items in pipeline and queue, a power of two above 2

    Members
    -------
    may : Out(1)
        an item may enter the pipeline
    soon : Out(1)
        ``may`` of the next cycle
    begins : In(1)
        one enters, only while ``may``
    valid, payload : In
        one leaves the pipeline
    o : Out(stream.Signature(shape))
        the items
    settling : Out(1)
        room is still being counted

    Timing
    ------
    Latency 1; an item every cycle if the pipeline is up to ``depth`` - 4 cycles long. ``may`` is a register.
    """

    def __init__(self, shape, depth: int):
        self.depth = depth
        super().__init__({
            "may": Out(1), "soon": Out(1), "begins": In(1), "valid": In(1), "payload": In(shape), "o": Out(stream.Signature(shape)),
            "settling": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        used = Signal(range(self.depth + 1))
        left = Signal()
        pops = self.o.valid & self.o.ready
        m.d.sync += [left.eq(pops), used.eq(used + self.begins - left), self.may.eq(self.soon)]
        m.d.comb += self.soon.eq(used < self.depth - 1)
        m.submodules.memory = memory = Memory(
            shape=unsigned(len(self.o.payload.as_value())), depth=self.depth, init=[]
        )
        write, read = memory.write_port(), memory.read_port(domain="comb")
        first, last = Signal(range(self.depth)), Signal(range(self.depth))
        level = Signal(range(self.depth + 1))
        several = Signal()
        m.d.comb += [
            write.en.eq(self.valid), write.addr.eq(last), write.data.eq(self.payload),
            read.addr.eq(first), self.o.payload.eq(read.data), self.settling.eq(left | (~self.may & self.soon)),
        ]
        m.d.sync += [
            last.eq(last + self.valid), self.o.valid.eq(self.valid | Mux(pops, several, self.o.valid)),
        ]
        with m.If(pops):
            m.d.sync += first.eq(first + 1)
        with m.If(self.valid & ~pops):
            m.d.sync += [level.eq(level + 1), several.eq(level != 0)]
        with m.If(~self.valid & pops):
            m.d.sync += [level.eq(level - 1), several.eq(level > 2)]
        return m
