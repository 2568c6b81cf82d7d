"""The whole accelerator: control, one or two cores and the update unit between two AXI ports."""

from itertools import pairwise

from amaranth import Cat, Const, Module, Mux, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..spec.config import Config
from .control.control import Control
from .control.csr import AxiLite
from .control.dispatch import queues
from .control.shadow import result_sources
from .core import SETTLING, STALLS, Core
from .lib.clock_gate import clock_gate, without_reset
from .lib.delay import delayed
from .memory.arbiters import ReadArbiter, WriteArbiter
from .memory.axi import AxiMaster, join_axi
from .memory.narrow import NarrowRead, NarrowWrite
from .memory.predictor_memory import PredictorMemory
from .update.adam_rate import AdamRate
from .update.update import Update

__all__ = ["Top"]


class Top(wiring.Component):
    """The accelerator: one clock domain, ``sync``, with a synchronous reset.

    Members
    -------
    irq : Out(1)
        interrupt to the host
    s_axil : In(AxiLite())
        AXI4-Lite slave for the registers of :mod:`adagp.spec.registers`
    m_axi : Out(AxiMaster(config))
        AXI4 master of ``config.port_width`` bits for everything else
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__({"irq": Out(1), "s_axil": In(AxiLite()), "m_axi": Out(AxiMaster(config))})

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.control = control = Control(config)
        engines = without_reset(m, platform, "engine")
        self.cores = [Core(config)]
        m.submodules.core = engines(self.cores[0])
        if config.n_cores > 1:
            self.cores.append(Core(config.predictor_core))
            m.submodules.predictor = engines(self.cores[1])
        self.update = Update(config)
        reset = delayed(m, control.reset, 1)
        m.d.comb += [self.cores[0].reset.eq(reset), self.update.reset.eq(reset)]
        for previous, following in pairwise(self.cores):
            m.d.comb += following.reset.eq(previous.restarted)
        busy = self.update.busy | (self.update.i.valid & self.update.i.ready) | reset
        block = ResetInserter(reset)(self.update)
        m.submodules.update = clock_gate(m, platform, "update", busy, SETTLING, reset=False)(block)

        self._tasks(m, control)
        if config.predicts:
            self._learning(m, control)
        self._memory(m, control)
        self._reports(m, control)
        self._count(m, control)
        return m

    def _tasks(self, m, control):
        """Connect the host's registers to cores and update unit, and their completions back."""
        connect(m, flipped(self.s_axil), control.bus)
        connect(m, control.update_task, self.update.i)
        m.d.comb += [self.irq.eq(control.irq), control.update_done.eq(self.update.done)]
        of_cores = [queue for queue in queues(self.config) if queue != "update"]
        for core, queue in zip(self.cores, of_cores, strict=True):
            task = control.task if queue == "main" else control.predictor_task
            connect(m, task, core.i)
            if core.config.drops:
                m.d.comb += core.key.eq(control.drop_key)
            m.d.comb += getattr(control, f"{queue}_done").eq(core.done)

    def _learning(self, m, control):
        """Connect the quality sums to the gate that judges predictions, and the unit that makes Adam's rate."""
        m.submodules.adam_rate = rate = AdamRate()
        client = self.update.rate
        m.d.comb += [
            control.quality_valid.eq(self.update.quality_valid), control.quality.eq(self.update.quality),
            rate.start.eq(client.start), rate.dry.eq(client.dry), rate.rate.eq(client.rate),
            rate.beta1.eq(client.beta1), rate.beta2.eq(client.beta2), client.done.eq(rate.done), client.o.eq(rate.o),
            rate.commit.eq(control.commit), rate.clear.eq(control.begin), rate.value.eq(control.adam_value),
            *(getattr(rate, f"set{n}").eq(getattr(control, f"set_adam_power{n}")) for n in (1, 2)),
            *(getattr(control, f"adam_power{n}").eq(getattr(rate, f"power{n}")) for n in (1, 2)),
        ]  # fmt: skip
        if self.config.flips_signs:
            m.d.comb += self.update.signs.eq(control.signs)

    def _ways(self, m, core):
        """A core's ways to memory, as wide as the port, and the signal that holds its bursts back there."""
        if core.config.port_width == self.config.port_width:
            return core.read, core.write, core.hold
        read, write = NarrowRead(core.config, self.config), NarrowWrite(core.config, self.config)
        m.submodules.narrow_read = ResetInserter(core.reset)(read)
        m.submodules.narrow_write = ResetInserter(core.reset)(write)
        connect(m, core.read, read.client)
        connect(m, core.write, write.client)
        m.d.comb += write.hold.eq(core.hold)
        return read.port, write.port, Const(0)

    def _memory(self, m, control):
        """Connect everything that uses the AXI master. The order of clients is their AXI id."""
        (read, write, hold), *others = [self._ways(m, core) for core in self.cores]
        readers = control.fetch, read, self.update.read, *(read for read, *_ in others)
        writers = self.cores[0], self.update, *self.cores[1:]
        clients = write, self.update.write, *(write for _, write, _ in others)
        holds = hold, self.update.hold, *(hold for *_, hold in others)
        m.submodules.reads = reads = ReadArbiter(self.config, len(readers))
        m.submodules.writes = writes = WriteArbiter(self.config, len(writers))
        for client, port in zip(readers, reads.clients, strict=True):
            connect(m, client, port)
        for writer, client, port in zip(writers, clients, writes.clients, strict=True):
            connect(m, client, port)
            m.d.comb += [writer.stop.eq(control.stop), writer.regions.eq(control.regions)]
        ports, counted_reads, counted_writes = (reads.axi, writes.axi), reads, writes
        if self.config.predictor_on_chip:
            m.submodules.predictor_memory = memory = PredictorMemory(self.config)
            connect(m, reads.axi, memory.i_read)
            connect(m, writes.axi, memory.i_write)
            ports, counted_reads, counted_writes = (memory.o_read, memory.o_write), memory, memory
            m.d.comb += [
                memory.window.eq(control.predictor_window),
                control.counts.predictor_bytes.eq(memory.moved),
            ]
        for arbiter, port in zip((reads, writes), ports, strict=True):
            join_axi(m, port, self.m_axi)
            m.d.comb += arbiter.halt.eq(control.halt)
        m.d.comb += [
            writes.hold.eq(Cat(holds)),
            control.writing.eq(Cat(writer.writing for writer in writers)),
            control.idle.eq(reads.idle & writes.idle),
            control.counts.read_bytes.eq(Mux(counted_reads.read_beats, self.config.beat_bytes, 0)),
            control.counts.write_bytes.eq(counted_writes.write_bytes),
        ]

    def _reports(self, m, control):
        """Connect results and errors of cores and update unit."""
        update = self.update
        first = 0
        for number, core in enumerate(self.cores):
            for place in range(Core.ERRORS):
                m.d.comb += control.errors[first + place].eq(core.errors[place])
            m.d.comb += [
                control.losses[number].eq(core.losses << first), core.lost.eq(control.lost[number]),
            ]  # fmt: skip
            first += Core.ERRORS
        error = control.errors[first]
        m.d.comb += [error.valid.eq(update.fault), error.code.eq(update.fault_code)]
        m.d.comb += error.index.eq(update.fault_command)
        reporters = self.cores[0], update, *self.cores[1:]
        for reporter, source in zip(reporters, result_sources(self.config), strict=True):
            m.d.comb += [
                getattr(control, f"{source}_result_valid").eq(reporter.result_valid),
                getattr(control, f"{source}_result").eq(reporter.result),
            ]

    def _count(self, m, control):
        core, *others = self.cores
        counts = control.counts
        updated = delayed(m, self.update.saturations, 1)
        m.d.comb += [
            counts.macs.eq(core.macs), counts.array_cycles.eq(core.active),
            counts.saturations.eq(updated + sum(core.saturations for core in self.cores)),
            *(counts[stall].eq(getattr(core, stall)) for stall in STALLS),
        ]  # fmt: skip
        for predictor in others:
            m.d.comb += [counts.predictor_macs.eq(predictor.macs), counts.predictor_cycles.eq(predictor.active)]
