"""Gate: decides by votes of a batch's layers if predictions are good enough to train with."""

from amaranth import Assert, Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..lib.block_queue import BlockQueue
from ..lib.delay import delayed
from ..lib.interfaces import QualityLayout
from .cosine import Cosine, ThresholdLayout

__all__ = ["Gate"]

DEPTH = 4
"""Qualities that may wait, with the one that is being judged."""
VOTES = 48
"""Width of the sum of a batch's weights."""


class Gate(wiring.Component):
    """Judges each layer's ``quality``, weighted by its number of weights; the majority opens or shuts the gate.

    Members
    -------
    quality_valid, quality : In(1), In(QualityLayout)
        a layer's quality; may come while ``busy``, as long as no more than DEPTH are waiting
    threshold : In(ThresholdLayout)
        register GATE_THRESHOLD
    clear : In(1)
        a new batch: forget the votes and the qualities not yet judged
    commit : In(1)
        open or shut the gate by the votes; only while not ``busy``. Nothing changes after a batch without a quality, or
        while the threshold isn't in use
    busy : Out(1)
        a quality isn't judged yet
    open : Out(1)
        register GATE: runs of GP may begin
    set, value : In(1)
        the host writes ``value`` to ``open``

    Timing
    ------
    Judging takes at most ``Cosine.CYCLES`` for each quality.
    """

    def __init__(self):
        super().__init__({
            "quality_valid": In(1), "quality": In(QualityLayout), "threshold": In(ThresholdLayout),
            "clear": In(1), "commit": In(1), "busy": Out(1), "open": Out(1, init=1), "set": In(1), "value": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        arrived = Signal()  # a quality is on its way to the queue
        arrival = delayed(m, self.quality, 1, reset=False)
        fifo = BlockQueue(QualityLayout.size, DEPTH)
        m.submodules.waiting = ResetInserter(self.clear)(fifo)
        cosine = Cosine()
        m.submodules.cosine = ResetInserter(self.clear)(cosine)
        quality = data.View(QualityLayout, fifo.r_data)
        judging = Signal()
        judged = Signal()
        balance = Signal(signed(VOTES + 1))  # votes for less votes against
        m.d.comb += [
            fifo.w_en.eq(arrived), fifo.w_data.eq(arrival), fifo.r_en.eq(cosine.done),
            cosine.quality.eq(quality), cosine.threshold.eq(self.threshold), cosine.start.eq(fifo.r_rdy & ~judging),
            self.busy.eq(self.quality_valid | arrived | (fifo.level != 0)),
        ]  # fmt: skip
        m.d.sync += arrived.eq(self.quality_valid & ~self.clear)
        with m.If(arrived):
            m.d.sync += Assert(fifo.w_rdy, "layers come faster than they can be judged")
        with m.If(cosine.start):
            m.d.sync += judging.eq(1)
        with m.If(cosine.done):
            m.d.sync += [
                judging.eq(0), judged.eq(1),
                balance.eq(Mux(cosine.passes, balance + quality.count, balance - quality.count)),
            ]  # fmt: skip
        with m.If(self.clear):
            m.d.sync += [judging.eq(0), judged.eq(0), balance.eq(0)]
        with m.If(self.commit & judged & self.threshold.in_use):
            m.d.sync += self.open.eq(balance > 0)
        with m.If(self.set):
            m.d.sync += self.open.eq(self.value)
        return m
