"""A queue in a memory block, for items too wide for registers or small memories."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .block_memory import BlockMemory

__all__ = ["BlockQueue"]


class BlockQueue(wiring.Component):
    """A first-in first-out queue of ``depth`` + 1 items, with the ports of Amaranth's buffered queue.

    Parameters
    ----------
    width
        bits of an item
    depth
        items in the memory block; one more is at the output

    Members
    -------
    w_rdy, w_en, w_data : Out, In, In
        an item is taken in cycles with ``w_rdy`` and ``w_en``
    r_rdy, r_en, r_data : Out, In, Out
        the first item, while ``r_rdy``; ``r_en`` removes it
    level : Out(range(depth + 2))
        items in the queue

    Raises
    ------
    ValueError
        ``depth`` isn't a power of two above 1

    Timing
    ------
    An item can be read two cycles after it was written; one item a cycle.
    """

    def __init__(self, width: int, depth: int):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two above 1, not {depth!r}")
        self.depth = depth
        super().__init__({
            "w_rdy": Out(1), "w_en": In(1), "w_data": In(width), "r_rdy": Out(1), "r_en": In(1), "r_data": Out(width),
            "level": Out(range(depth + 2)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = BlockMemory(len(self.w_data), self.depth, block=True)
        first, last = (Signal(range(self.depth), name=name) for name in ("first", "last"))
        stored = Signal(range(self.depth + 1))  # its last bit: ``depth``
        write, fetch = self.w_en & self.w_rdy, Signal()
        m.d.comb += [
            self.w_rdy.eq(~stored[-1]), fetch.eq((stored != 0) & (~self.r_rdy | self.r_en)),
            memory.w_en.eq(write), memory.w_addr.eq(last), memory.w_data.eq(self.w_data),
            memory.r_en.eq(fetch), memory.r_addr.eq(first), self.r_data.eq(memory.r_data),
            self.level.eq(stored + self.r_rdy),
        ]  # fmt: skip
        m.d.sync += [last.eq(last + write), first.eq(first + fetch), stored.eq(stored + write - fetch)]
        with m.If(fetch):
            m.d.sync += self.r_rdy.eq(1)
        with m.Elif(self.r_en):
            m.d.sync += self.r_rdy.eq(0)
        return m
