"""Control: registers, command fetch, tables and counters, and what becomes of errors."""

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from ..spec.registers import N_REGIONS
from .clock_gate import clock_gate
from .counters import Counters, counts_layout
from .csr import AxiLite, Csr
from .exponents import ExponentLayout, Exponents
from .fetch import Fetch
from .hyper import Hyper, HyperLayout
from .interfaces import (
    ErrorLayout,
    LostLayout,
    ReadClient,
    RegionLayout,
    ResultLayout,
    StopLayout,
    TaskLayout,
    UpdateLayout,
)  # fmt: skip
from .issue import Issue
from .phase import BatchCounter
from .supervisor import Supervisor

__all__ = ["Control"]

WHILE_RUNNING = ("array_cycles", "stall_a", "stall_b", "stall_load", "stall_drain", "stall_idle")
"""Counters that divide ``cycles`` up, and so count only together with it."""


SETTLING = 16
"""Cycles in which what fetch, tables and queues were given has its effect, when they wait for nothing else."""


class Control(wiring.Component):
    """Everything between the register port and the engines.

    ``bus``: see :class:`.csr.Csr`. ``fetch`` reads commands. ``task``, ``update_task``, ``main_done``,
    ``update_done``: see :class:`.issue.Issue`. Results: at most one per cycle and source, those of a command
    before or with its done pulse (see :class:`.shadow.Shadow`). ``errors``: reports of other blocks, which ``stop``
    and ``lost`` follow ``STOP_LATENCY`` cycles later; ``losses``: see :class:`.supervisor.Supervisor`. ``stop``,
    ``lost``, and ``writing`` of the two queues: see :class:`.write_stop.WriteStop`. ``halt``, ``idle``, ``reset``: see
    :class:`.supervisor.Supervisor`. ``counts``: increments of the counters; ``cycles`` and ``commands`` are counted
    here whatever it says. ``irq`` is a level.
    """

    STOP_LATENCY = 2

    def __init__(self, config: Config, n_errors: int = 4):
        self.config = config
        self.n_errors = n_errors
        super().__init__({
            "bus": In(AxiLite()), "irq": Out(1),
            "fetch": Out(ReadClient(config)),
            "task": Out(stream.Signature(TaskLayout)), "update_task": Out(stream.Signature(UpdateLayout)),
            "main_done": In(1), "update_done": In(1),
            "drain_result_valid": In(1), "drain_result": In(ResultLayout),
            "update_result_valid": In(1), "update_result": In(ResultLayout),
            "regions": Out(data.ArrayLayout(RegionLayout, N_REGIONS)),
            "errors": In(data.ArrayLayout(ErrorLayout, n_errors)), "losses": In(n_errors),
            "writing": In(2), "stop": Out(StopLayout), "lost": Out(LostLayout),
            "counts": In(counts_layout(config)),
            "halt": Out(1), "idle": In(1), "reset": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        csr = Csr(config)
        m.submodules.supervisor = supervisor = Supervisor(self.n_errors + 1)
        m.submodules.batches = batches = BatchCounter()
        m.submodules.counters = counters = Counters(config)
        fetch, issue = Fetch(config), Issue(config)
        exponents, hyper = Exponents(config), Hyper(config)
        bus = csr.bus
        used = bus.awvalid | bus.wvalid | bus.arvalid | bus.bvalid | bus.rvalid
        m.submodules.csr = clock_gate(m, platform, "csr", used, SETTLING)(csr)
        events = Cat(
            self.reset, supervisor.start, supervisor.resume, csr.look, csr.written, self.main_done, self.update_done,
            self.drain_result_valid, self.update_result_valid, self.fetch.beats.valid,
            self.task.valid & self.task.ready, self.update_task.valid & self.update_task.ready,
        )  # fmt: skip
        gate = clock_gate(m, platform, "front", events.any() | fetch.busy | issue.busy, SETTLING)
        for name, block in (("fetch", fetch), ("issue", issue), ("exponents", exponents), ("hyper", hyper)):
            m.submodules[name] = gate(ResetInserter(self.reset)(block))
        wiring.connect(m, wiring.flipped(self.bus), csr.bus)
        wiring.connect(m, wiring.flipped(self.fetch), fetch.client)
        self._supervise(m, csr, supervisor, fetch, issue)
        self._run(m, csr, batches, fetch, issue)
        self._work(m, fetch, issue, exponents, hyper)
        self._tables(m, csr, exponents, hyper)
        self._count(m, csr, counters, batches, fetch, supervisor)
        for i in range(N_REGIONS):
            m.d.comb += [
                self.regions[i].start.eq(getattr(csr, f"region{i}_start")),
                self.regions[i].end.eq(getattr(csr, f"region{i}_end")),
            ]
        return m

    def _supervise(self, m, csr, supervisor, fetch, issue):
        """Start, stop, errors, status, interrupt."""
        m.d.comb += [
            supervisor.command.eq(Mux(csr.written.control, csr.write_data, 0)),
            supervisor.finished.eq(fetch.finished), supervisor.waiting.eq(fetch.waiting),
            supervisor.errors[self.n_errors].eq(fetch.error),
            csr.status.eq(supervisor.status), csr.error.eq(supervisor.error.code),
            csr.error_index.eq(supervisor.error.index),
            self.halt.eq(supervisor.halt), self.reset.eq(supervisor.reset),
            self.irq.eq(csr.irq_enable & supervisor.event),
            fetch.start.eq(supervisor.start), fetch.resume.eq(supervisor.resume),
            fetch.stopping.eq(supervisor.stopping),
            self.stop.eq(supervisor.stop), self.lost.eq(supervisor.lost), issue.until.eq(supervisor.error.index),
            supervisor.quiet.eq(issue.complete & ~self.writing.any()),
        ]  # fmt: skip
        # Registered, so that no path leads from the memory port to all that depends on a stop.
        m.d.sync += [
            supervisor.idle.eq(self.idle), supervisor.losses.eq(self.losses),
            *(supervisor.errors[i].eq(self.errors[i]) for i in range(self.n_errors)),
        ]  # fmt: skip

    def _run(self, m, csr, batches, fetch, issue):
        """Batches, phases, the input ring."""
        m.d.comb += [
            batches.run_phase.eq(csr.phase), batches.batches.eq(csr.batches), batches.begin.eq(fetch.begin),
            batches.batch_end.eq(fetch.batch_end), batches.locate.eq(fetch.start | fetch.resume),
            batches.ring_base.eq(csr.ring_base), batches.ring_stride.eq(csr.ring_stride),
            batches.ring_count.eq(csr.ring_count), batches.value.eq(csr.write_data),
            batches.set_batch.eq(csr.written.batch), batches.set_ring_index.eq(csr.written.ring_index),
            csr.batch.eq(batches.batch), csr.ring_index.eq(batches.ring_index),
            fetch.program.eq(csr.program), fetch.calibrate.eq(csr.calibrate), fetch.phase.eq(batches.phase),
            fetch.last.eq(batches.last), fetch.located.eq(batches.located),
            issue.ring_address.eq(batches.ring_address), issue.new_batch.eq(fetch.batch_end),
        ]  # fmt: skip

    def _work(self, m, fetch, issue, exponents, hyper):
        """Commands on their way to the engines, results on their way back."""
        assert Hyper.LOOKUP_LATENCY <= Exponents.LOOKUP_LATENCY  # issue waits for the longer lookup only
        wiring.connect(m, fetch.work, issue.work)
        wiring.connect(m, issue.exponents, exponents.lookup)
        wiring.connect(m, issue.hyper, hyper.lookup)
        wiring.connect(m, issue.task, wiring.flipped(self.task))
        wiring.connect(m, issue.update_task, wiring.flipped(self.update_task))
        wiring.connect(m, fetch.adjust, exponents.adjust)
        m.d.comb += [
            fetch.given.eq(issue.given), fetch.settled.eq(issue.settled),
            issue.main_done.eq(self.main_done), issue.update_done.eq(self.update_done),
            exponents.drain_result_valid.eq(self.drain_result_valid), exponents.drain_result.eq(self.drain_result),
            exponents.update_result_valid.eq(self.update_result_valid),
            exponents.update_result.eq(self.update_result),
        ]  # fmt: skip

    def _tables(self, m, csr, exponents, hyper):
        """The registers that show table entries."""
        m.d.comb += [
            exponents.index.eq(csr.tensor), exponents.show.eq(csr.look), exponents.set.eq(csr.written.exponent),
            exponents.value.eq(data.View(ExponentLayout, csr.write_data[: ExponentLayout.size])),
            csr.exponent.eq(exponents.shown),
            hyper.index.eq(csr.hyper), hyper.show.eq(csr.look), hyper.set.eq(csr.written.hyper_value),
            hyper.value.eq(data.View(HyperLayout, csr.write_data[: HyperLayout.size])),
            csr.hyper_value.eq(hyper.shown),
        ]  # fmt: skip

    def _count(self, m, csr, counters, batches, fetch, supervisor):
        counting = Signal()
        m.d.sync += [
            counters.counts.eq(self.counts),
            counters.counts.cycles.eq(counting),
            counters.counts.commands.eq(fetch.executed),
            *(counters.counts[name].eq(Mux(counting, self.counts[name], 0)) for name in WHILE_RUNNING),
        ]
        m.d.comb += [
            counting.eq(fetch.running & supervisor.busy),
            counters.phase.eq(batches.phase), counters.clear.eq(supervisor.clear_counters),
            counters.index.eq(csr.counter), counters.show.eq(csr.look), csr.counter_value.eq(counters.shown),
        ]  # fmt: skip
