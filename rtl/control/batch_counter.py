"""Batch bookkeeping: the phase, the batches left, the address of the batch's input."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.registers import N_PHASES
from ..lib.delay import delayed

__all__ = ["BatchCounter"]

WIDTH = 32


class BatchCounter(wiring.Component):
    """Counts a run's batches and walks the input ring.

    Members
    -------
    begin : In(1)
        a run begins: takes over ``run_phase`` and ``batches``
    run_phase, batches : In(range(N_PHASES)), In(32)
        phase of the run, and its number of batches
    phase : Out(range(N_PHASES))
        phase of the run
    batch_end : In(1)
        a batch has ended; doesn't come in two successive cycles
    last : Out(1)
        no batch is left after this one
    batch, ring_index : Out(32)
        registers BATCH and RING_INDEX
    set_batch, set_ring_index, value : In(1), In(1), In(32)
        write ``value`` to BATCH or RING_INDEX
    ring_base, ring_stride, ring_count : In(32)
        the input ring: address of entry 0, bytes from entry to entry, entries
    locate : In(1)
        compute ``ring_address`` anew, as the ring's registers may have changed
    located : Out(1)
        ``ring_address`` is valid
    ring_address : Out(32)
        ring_base + ring_index * ring_stride, modulo 2^32

    Timing
    ------
    The ring advances a cycle after ``batch_end``; it has as many entries as ``ring_count`` said in the cycle before
    ``batch_end``. A write to RING_INDEX in the cycle of ``batch_end`` or the next one replaces the advance. ``located``
    is low for LOCATE_CYCLES after ``locate`` and ``batch_end``.
    """

    LOCATE_CYCLES = WIDTH + 2

    def __init__(self):
        super().__init__({
            "run_phase": In(range(N_PHASES)), "batches": In(WIDTH), "begin": In(1),
            "phase": Out(range(N_PHASES)), "last": Out(1), "batch_end": In(1),
            "batch": Out(WIDTH), "set_batch": In(1),
            "ring_index": Out(WIDTH), "set_ring_index": In(1), "value": In(WIDTH),
            "ring_base": In(WIDTH), "ring_stride": In(WIDTH), "ring_count": In(WIDTH),
            "locate": In(1), "located": Out(1), "ring_address": Out(WIDTH),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        left = Signal(WIDTH)
        ended = delayed(m, self.batch_end, 1)
        advance = delayed(m, self.batch_end & ~self.set_ring_index, 1)
        highest = Signal(signed(WIDTH + 1))  # last index of the ring, which then starts over
        over = Signal()
        m.d.sync += [highest.eq(self.ring_count - 1), over.eq(self.ring_index >= highest)]
        m.d.comb += self.last.eq(left <= 1)
        with m.If(self.begin):
            m.d.sync += [self.phase.eq(self.run_phase), left.eq(self.batches)]
        with m.If(self.batch_end):
            m.d.sync += [
                left.eq(left - 1),
                self.batch.eq(self.batch + 1),
            ]
        with m.If(advance):
            m.d.sync += self.ring_index.eq(Mux(over, 0, self.ring_index + 1))
        with m.If(self.set_batch):
            m.d.sync += self.batch.eq(self.value)
        with m.If(self.set_ring_index):
            m.d.sync += self.ring_index.eq(self.value)
        self._locate(m, ended)
        return m

    def _locate(self, m, ended):
        """Multiply by shifting and adding, as this is too rare to be worth a multiplier."""
        start = Signal()
        busy = Signal()
        step = Signal(range(WIDTH))
        addend = Signal(WIDTH)
        index = Signal(WIDTH)
        m.d.sync += start.eq(self.locate | ended)
        m.d.comb += self.located.eq(~busy & ~start & ~ended & ~self.locate & ~self.batch_end)
        with m.If(start):
            m.d.sync += [
                busy.eq(1), step.eq(0), index.eq(self.ring_index), addend.eq(self.ring_stride),
                self.ring_address.eq(self.ring_base),
            ]  # fmt: skip
        with m.Elif(busy):
            m.d.sync += [busy.eq(step != WIDTH - 1), step.eq(step + 1), index.eq(index >> 1), addend.eq(addend << 1)]
            with m.If(index[0]):
                m.d.sync += self.ring_address.eq(self.ring_address + addend)
