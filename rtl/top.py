"""The whole accelerator: control, sequencer, engines and scratchpads between two AXI ports."""

from amaranth import Cat, Module, Mux, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..spec.config import Config
from ..spec.errors import ErrorCode
from .axi import AxiMaster, ReadArbiter, WriteArbiter, join_axi
from .clock_gate import clock_gate
from .compute import Compute
from .control import Control
from .csr import AxiLite
from .dma_read import Fill
from .dma_write import Store
from .drain import Drain
from .scratchpad import PingPong, Scratchpad
from .sequencer import Sequencer
from .token import TokenCounter
from .update import Update

__all__ = ["Top"]

TOKENS = {
    # name: (initial count, giver, taker); see docs/machine.md
    "a_free": (2, "compute", "fill"),
    "b_free": (2, "compute", "fill"),
    "a_full": (0, "fill", "compute"),
    "b_full": (0, "fill", "compute"),
    "acc_free": (2, "drain", "compute"),
    "acc_full": (0, "compute", "drain"),
    "c_free": (2, "store", "fill"),
    "c_ready": (0, "fill", "drain"),
    "drained": (0, "drain", "store"),
}

SETTLING = max(Fill.LANDING_CYCLES, Scratchpad.WRITE_LATENCY + 1)
"""Cycles in which what an engine did last reaches the tokens and the scratchpads' memories."""

HALVES = 2
"""No engine can be more than the two halves of its buffers ahead of another."""


class Top(wiring.Component):
    """The accelerator.

    Ports: ``irq``; ``s_axil``, an AXI4-Lite slave for the registers of :mod:`adagp.spec.registers`;
    ``m_axi``, an AXI4 master of ``config.port_width`` bits for everything else. One clock domain,
    ``sync``, with a synchronous reset.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__({"irq": Out(1), "s_axil": In(AxiLite()), "m_axi": Out(AxiMaster(config))})

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.control = control = Control(config)

        def engine(name, component, wanted=None):
            """Add a block that CLEAR and START bring back to its initial state, with a clock only while ``wanted``."""
            block = ResetInserter(control.reset)(component)
            if wanted is not None:
                block = clock_gate(m, platform, name, wanted | control.reset, SETTLING)(block)
            m.submodules[name] = block
            return component

        def taken(port):
            return port.valid & port.ready

        self.sequencer, self.fill, self.compute = Sequencer(config), Fill(config), Compute(config)
        self.drain, self.store, self.update = Drain(config), Store(config), Update(config)
        fills = self.fill.busy | taken(self.fill.i) | self.fill.client.beats.valid
        drains = self.drain.busy | taken(self.drain.i) | self.fill.bias_valid
        stores = self.store.busy | taken(self.store.i) | self.store.client.answer.valid
        engine("sequencer", self.sequencer, self.sequencer.busy)
        engine("fill", self.fill, fills)
        engine("compute", self.compute)
        m.d.comb += [block.reset.eq(control.reset) for block in (self.sequencer, self.compute, self.drain)]
        engine("drain", self.drain, drains)
        engine("store", self.store, stores)
        engine("update", self.update, self.update.busy | taken(self.update.i))
        self.tokens = {name: engine(name, TokenCounter(initial, HALVES)) for name, (initial, *_) in TOKENS.items()}
        uses_a = self.fill.a.mask.any() | self.compute.reads_a
        uses_b = self.fill.b.mask.any() | self.compute.reads_b
        uses_c = self.fill.c.mask.any() | self.drain.reads_c | self.drain.c_write.mask.any() | stores
        pad_a = engine("pad_a", Scratchpad(config, 2 * config.a_depth), uses_a)
        pad_b = engine("pad_b", Scratchpad(config, 2 * config.b_depth), uses_b)
        pad_c = engine("pad_c", PingPong(config, config.c_depth), uses_c)

        for reader, writer, pad in ((self.compute.a, self.fill.a, pad_a), (self.compute.b, self.fill.b, pad_b)):
            connect(m, reader, pad.read)
            connect(m, writer, pad.write)
        connect(m, self.fill.c, pad_c.write0)
        connect(m, self.drain.c_write, pad_c.write1)
        connect(m, self.drain.c_read, pad_c.read0)
        connect(m, self.store.c, pad_c.read1)
        connect(m, self.drain.acc, self.compute.acc)
        connect(m, self.compute.vector, self.drain.vector)
        for name in ("bias_valid", "bias_half", "bias_start", "bias_data"):
            m.d.comb += getattr(self.drain, name).eq(getattr(self.fill, name))

        self._tasks(m, control)
        self._tokens(m)
        self._memory(m, control)
        self._reports(m, control)
        return m

    def _tasks(self, m, control):
        """From the host's registers to the engines' descriptors."""
        connect(m, flipped(self.s_axil), control.bus)
        connect(m, control.task, self.sequencer.i)
        connect(m, control.update_task, self.update.i)
        for name in ("fill", "compute", "drain", "store"):
            connect(m, getattr(self.sequencer, name), getattr(self, name).i)
        m.d.comb += self.irq.eq(control.irq)

    def _tokens(self, m):
        for name, (_, giver, taker) in TOKENS.items():
            counter = self.tokens[name]
            m.d.comb += counter.give.eq(getattr(getattr(self, giver), name))
            connect(m, getattr(getattr(self, taker), name), counter.take)

    def _memory(self, m, control):
        """Everything that moves over the AXI master. The order of clients is their AXI id."""
        m.submodules.reads = reads = ReadArbiter(self.config, 3)
        m.submodules.writes = writes = WriteArbiter(self.config, 2)
        for client, port in zip((control.fetch, self.fill.client, self.update.read), reads.clients, strict=True):
            connect(m, client, port)
        for client, port in zip((self.store.client, self.update.write), writes.clients, strict=True):
            connect(m, client, port)
        for arbiter in (reads, writes):
            join_axi(m, arbiter.axi, self.m_axi)
            m.d.comb += arbiter.halt.eq(control.halt)
        writers = self.store, self.update
        m.d.comb += [
            writes.hold.eq(Cat(writer.hold for writer in writers)),
            control.writing.eq(Cat(writer.writing for writer in writers)),
            *(writer.stop.eq(control.stop) for writer in writers),
            self.store.lost.eq(control.lost),
            control.idle.eq(reads.idle & writes.idle),
            control.counts.read_bytes.eq(Mux(reads.read_beats, self.config.beat_bytes, 0)),
            control.counts.write_bytes.eq(writes.write_bytes),
            self.store.regions.eq(control.regions),
            self.update.regions.eq(control.regions),
        ]

    def _reports(self, m, control):
        """Completions, maxima, errors and what is counted."""
        fill, drain, store, update = self.fill, self.drain, self.store, self.update
        faults = (
            (self.sequencer.error_valid, self.sequencer.error_code, self.sequencer.error_index),
            (fill.fault, ErrorCode.READ_FAULT, fill.fault_command),
            (store.fault, store.fault_code, store.fault_command),
            (update.fault, update.fault_code, update.fault_command),
        )
        for error, (valid, code, index) in zip(control.errors, faults, strict=True):
            m.d.comb += [error.valid.eq(valid), error.code.eq(code), error.index.eq(index)]
        # After a refused write its queue of commands could go on, after the others not.
        m.d.comb += control.losses.eq(Cat(1, 1, store.fault_code != ErrorCode.WRITE_FAULT, 0))
        m.d.comb += [
            control.main_done.eq(store.main_done),
            control.update_done.eq(update.done),
            control.drain_result_valid.eq(drain.result_valid),
            control.drain_result.eq(drain.result),
            control.update_result_valid.eq(update.result_valid),
            control.update_result.eq(update.result),
            control.counts.macs.eq(self.compute.macs),
            control.counts.array_cycles.eq(self.compute.active),
            control.counts.saturations.eq(drain.saturations + update.saturations),
        ]
        for stall in ("stall_a", "stall_b", "stall_load", "stall_drain", "stall_idle"):
            m.d.comb += control.counts[stall].eq(getattr(self.compute, stall))
