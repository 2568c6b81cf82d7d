"""The queue of commands before an engine: each command waits there for those that it depends on."""

from amaranth import Cat, Module, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.block_queue import BlockQueue
from ..lib.delay import delayed
from ..lib.pair_queue import PairQueue

__all__ = ["COUNT_WIDTH", "Dispatch", "WaitLayout", "queues"]

COUNT_WIDTH = 16
"""Width of the counts of commands in a batch, which ``wait_main`` and its like refer to."""

SMALL = 2
"""Greatest depth of a queue that isn't worth memory blocks."""

WaitLayout = data.StructLayout({"main": COUNT_WIDTH, "update": COUNT_WIDTH, "predictor": COUNT_WIDTH})
"""Counts of compute commands, of UPDATE and ADAM commands, and of the predictor's commands in a batch."""


def queues(config: Config) -> tuple[str, ...]:
    """Names of the queues: the main core's, the update unit's, and the predictor's if it has a core of its own."""
    return ("main", "update", "predictor")[: 1 + config.n_cores]


class Dispatch(wiring.Component):
    """A queue whose front item is offered once the commands that it waits for are complete.

    Parameters
    ----------
    shape
        shape of a payload
    depth : int
        items that the queue holds

    Members
    -------
    i : In(stream of {wait, payload})
        items; ``wait`` has the counts to reach
    o : Out(stream of shape)
        payloads
    completed : In(WaitLayout)
        counts of completed commands; may only grow while the queue isn't empty

    Timing
    ------
    At least LATENCY cycles from ``i`` to ``o``; at most one item every four cycles, or every three if the queue holds
    more than SMALL.
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
        # What is compared isn't among the payloads, which take most of a cycle from a memory block, or two to move from
        # register to register. Both queues hold the same items.
        m.submodules.queue = queue = SyncFIFOBuffered(width=WaitLayout.size, depth=self.depth)
        width, small = Shape.cast(self.o.p.shape()).width, self.depth <= SMALL
        m.submodules.payloads = payloads = PairQueue(width) if small else BlockQueue(width, self.depth)
        payload = payloads.r_data if small else delayed(m, payloads.r_data, 1, reset=False)  # a cycle after ``r_rdy``
        front = WaitLayout(queue.r_data)
        met, taken = Signal(), Signal()  # taken: the front item was taken in the cycle before; now it leaves the queue
        accepted = met & self.o.ready
        m.d.comb += [
            self.i.ready.eq(queue.w_rdy & payloads.w_rdy),
            queue.w_en.eq(self.i.valid & payloads.w_rdy), queue.w_data.eq(self.i.p.wait),
            payloads.w_en.eq(self.i.valid & queue.w_rdy), payloads.w_data.eq(self.i.p.payload),
            self.o.valid.eq(met), self.o.payload.eq(payload), queue.r_en.eq(taken), payloads.r_en.eq(taken),
        ]  # fmt: skip
        waited = Cat(self.completed[kind] >= front[kind] for kind in WaitLayout.members).all()
        m.d.sync += [taken.eq(accepted), met.eq(queue.r_rdy & payloads.r_rdy & waited & ~accepted & ~taken)]
        return m
