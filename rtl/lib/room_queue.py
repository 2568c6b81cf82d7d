"""A queue after a pipeline that can't wait: what enters the pipeline is counted against the room after it."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["RoomQueue"]


class RoomQueue(wiring.Component):
    """Holds items that have left a pipeline, and says when another may enter it.

    Pipeline and queue have at most ``depth`` items together, so each finds room when it leaves the pipeline. No enable
    leads from the queue's reader back through the pipeline.

    Parameters
    ----------
    shape
        shape of an item
    depth
        most items in pipeline and queue together

    Members
    -------
    may : Out(1)
        an item may enter the pipeline
    room : Out(1)
        ``may`` of the next cycle
    begins : In(1)
        an item enters the pipeline; only while ``may``
    valid, payload : In
        an item leaves the pipeline
    o : Out(stream.Signature(shape))
        the items in order

    Raises
    ------
    ValueError
        ``depth`` isn't a power of two above 1

    Timing
    ------
    Latency 1; an item every cycle, if one leaves the pipeline up to ``depth`` - 4 cycles after it has entered. ``may``
    comes from a register.
    """

    def __init__(self, shape, depth: int):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two above 1, not {depth!r}")
        self.depth = depth
        super().__init__({
            "may": Out(1), "room": Out(1), "begins": In(1), "valid": In(1), "payload": In(shape),
            "o": Out(stream.Signature(shape)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=self.payload.shape(), depth=self.depth, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        first, last = (Signal(range(self.depth), name=name) for name in ("first", "last"))
        level, used = (Signal(range(self.depth + 1), name=name) for name in ("level", "used"))
        several = Signal()  # two items or more are in the queue
        gone = Signal()  # an item has left, which is counted a cycle later, as the reader's ready comes late
        leaves = self.o.valid & self.o.ready
        # Before ``may`` falls, an item may begin in this cycle and in the next one.
        m.d.comb += self.room.eq(used < self.depth - 1)
        m.d.sync += [self.may.eq(self.room), gone.eq(leaves), used.eq(used + self.begins - gone)]
        m.d.comb += [
            write.en.eq(self.valid), write.addr.eq(last), write.data.eq(self.payload),
            read.addr.eq(first), self.o.payload.eq(read.data),
        ]  # fmt: skip
        m.d.sync += [
            last.eq(last + self.valid), first.eq(first + leaves),
            self.o.valid.eq(self.valid | Mux(leaves, several, self.o.valid)),
        ]  # fmt: skip
        with m.If(self.valid & ~leaves):
            m.d.sync += [level.eq(level + 1), several.eq(level != 0)]
        with m.Elif(leaves & ~self.valid):
            m.d.sync += [level.eq(level - 1), several.eq(level > 2)]
        return m
