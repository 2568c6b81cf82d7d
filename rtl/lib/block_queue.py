"""A queue in a memory block, for items so wide that registers or small memories would cost more than it holds."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .block_memory import BlockMemory

__all__ = ["BlockQueue"]


class BlockQueue(wiring.Component):
    """As Amaranth's buffered queue, whose ports it has: first in, first out, ``depth`` + 1 items of ``width`` bits.

    An item can be read two cycles after it was written. Raises ValueError unless ``depth`` is a power of two above 1.
    """

    def __init__(self, width: int, depth: int):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two above 1, not {depth!r}")
        self._depth = depth
        super().__init__({
            "w_rdy": Out(1), "w_en": In(1), "w_data": In(width), "r_rdy": Out(1), "r_en": In(1), "r_data": Out(width),
            "level": Out(range(depth + 2)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = BlockMemory(len(self.w_data), self._depth, block=True)
        first, last = Signal(range(self._depth)), Signal(range(self._depth))
        stored = Signal(range(self._depth + 1))
        write, fetch = self.w_en & self.w_rdy, Signal()
        m.d.comb += [
            self.w_rdy.eq(stored != self._depth), fetch.eq((stored != 0) & (~self.r_rdy | self.r_en)),
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
