"""Queue of commands in front of an engine: each waits there for the commands it depends on."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

__all__ = ["COUNT_WIDTH", "Dispatch", "WaitLayout"]

COUNT_WIDTH = 16
"""Width of the counts of commands in a batch that ``wait_main`` and ``wait_update`` refer to."""

WaitLayout = data.StructLayout({"main": COUNT_WIDTH, "update": COUNT_WIDTH})
"""Numbers of compute and of UPDATE commands of this batch."""


class Dispatch(wiring.Component):
    """A queue of ``depth`` payloads of ``shape``; the front one is offered once ``completed`` has
    reached its ``wait`` in both numbers, which may only grow while the queue isn't empty.

    At least LATENCY cycles from ``i`` to ``o``.
    """

    LATENCY = 3

    def __init__(self, shape, depth: int):
        self.depth = depth
        self.item = data.StructLayout({"wait": WaitLayout, "payload": shape})
        super().__init__({
            "i": In(stream.Signature(self.item)), "o": Out(stream.Signature(shape)), "completed": In(WaitLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = SyncFIFOBuffered(width=self.item.size, depth=self.depth)
        front = data.View(self.item, queue.r_data)
        met = Signal()
        m.d.comb += [
            self.i.ready.eq(queue.w_rdy),
            queue.w_en.eq(self.i.valid),
            queue.w_data.eq(self.i.payload),
            self.o.valid.eq(met),
            self.o.payload.eq(front.payload),
            queue.r_en.eq(met & self.o.ready),
        ]
        waited = (self.completed.main >= front.wait.main) & (self.completed.update >= front.wait.update)
        m.d.sync += met.eq(queue.r_rdy & waited & ~queue.r_en)
        return m
