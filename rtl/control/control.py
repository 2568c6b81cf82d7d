"""Control: registers, command fetch, tables, counters, and the orderly stop after an error."""

from amaranth import Cat, Module, Mux, ResetInserter, ResetSignal, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.registers import AS_SCHEDULED, N_REGIONS
from ..lib.clock_gate import clock_gate
from ..lib.delay import delayed
from ..lib.interfaces import (  # fmt: skip
    ErrorLayout,
    HyperLayout,
    LostLayout,
    QualityLayout,
    ReadClient,
    RegionLayout,
    SignsLayout,
    StopLayout,
    TaskLayout,
    UpdateLayout,
)
from .batch_counter import BatchCounter
from .cosine import ThresholdLayout
from .counters import FLUSH_CYCLES, Counters, counts_layout, counts_of_run
from .csr import AxiLite, Csr
from .dispatch import queues
from .exponents import Exponents
from .fetch import Fetch
from .hyper_table import HyperTable
from .issue import Issue
from .phase_control import PhaseControl
from .quality_gate import Gate
from .shadow import result_ports, result_sources
from .supervisor import Supervisor

__all__ = ["Control"]

SETTLING = 16
"""Cycles after which an input of fetch, tables or queues has had its effect, if they wait for nothing else."""


class Control(wiring.Component):
    """Everything between the register port and the engines.

    Parameters
    ----------
    config : Config
        decides which members there are

    Members
    -------
    bus, irq : In(AxiLite()), Out(1)
        registers (see :class:`.csr.Csr`); the interrupt, a level
    fetch : Out(ReadClient(config))
        reads commands
    task, update_task, predictor_task, main_done, update_done, predictor_done
        tasks and their completion; see :class:`.issue.Issue`
    SOURCE_result, SOURCE_result_valid
        results' maxima, at most one per cycle and source, a command's no later than its done pulse; see
        :class:`.shadow.Shadow`
    regions : Out(array of RegionLayout)
        write regions
    errors, losses : In
        reports of other blocks; see :class:`.supervisor.Supervisor`
    stop, lost, writing
        orderly stop of the queues' writes; see :class:`.write_stop.WriteStop`
    halt, idle, reset
        see :class:`.supervisor.Supervisor`
    counts : In(counts_layout(config))
        increments of the counters; ``cycles`` and ``commands`` are counted here, whatever it says
    predictor_window : Out(32), where ``config.predictor_on_chip``
        register PREDICTOR
    signs : Out(SignsLayout), where ``config.flips_signs``
        seed and batch of random signs
    drop_key : Out(SignsLayout), where ``config.drops``
        seed and batch of dropout: registers SEED and BATCH
    quality_valid, quality : In, where ``config.predicts``
        a command's quality, before its done pulse; see :class:`.quality_gate.Gate`
    begin, commit : Out(1), where ``config.predicts``
        pulse before each batch; when a COMMIT begins, once all commands before it are complete
    adam_power1, adam_power2 : In(32), where ``config.predicts``
        values of the registers, which are kept in the update unit
    set_adam_power1, set_adam_power2, adam_value : Out, where ``config.predicts``
        write ``adam_value`` to one of them

    Attributes
    ----------
    stop_latency : int
        cycles from a report in ``errors`` to ``stop`` and ``lost``
    """

    def __init__(self, config: Config):
        self.config = config
        self.n_errors = n_errors = 3 * config.n_cores + 1
        self.supervisor = Supervisor(n_errors + 1, config.n_cores)
        self.stop_latency = self.supervisor.latency + 1
        super().__init__({
            "bus": In(AxiLite()), "irq": Out(1),
            "fetch": Out(ReadClient(config)),
            "task": Out(stream.Signature(TaskLayout)), "update_task": Out(stream.Signature(UpdateLayout(config))),
            **({"predictor_task": Out(stream.Signature(TaskLayout))} if config.n_cores > 1 else {}),
            **{f"{queue}_done": In(1) for queue in queues(config)}, **result_ports(config),
            "regions": Out(data.ArrayLayout(RegionLayout, N_REGIONS)),
            "errors": In(data.ArrayLayout(ErrorLayout, n_errors)),
            "losses": In(data.ArrayLayout(n_errors, config.n_cores)),
            "writing": In(1 + config.n_cores), "stop": Out(StopLayout),
            "lost": Out(data.ArrayLayout(LostLayout, config.n_cores)),
            "counts": In(counts_layout(config)),
            "halt": Out(1), "idle": In(1), "reset": Out(1),
            **({"predictor_window": Out(32)} if config.predictor_on_chip else {}),
            **({"signs": Out(SignsLayout)} if config.flips_signs else {}),
            **({"drop_key": Out(SignsLayout)} if config.drops else {}),
            **({
                "quality_valid": In(1), "quality": In(QualityLayout), "commit": Out(1), "begin": Out(1),
                "adam_value": Out(32),
                **{f"adam_power{i}": In(32) for i in (1, 2)}, **{f"set_adam_power{i}": Out(1) for i in (1, 2)},
            } if config.predicts else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self.config
        csr = Csr(config)
        m.submodules.supervisor = supervisor = self.supervisor
        m.submodules.batches = batches = BatchCounter()
        m.submodules.counters = counters = Counters(config)
        fetch, issue = Fetch(config), Issue(config)
        exponents, hyper = Exponents(config), HyperTable(config)
        bus = csr.bus
        used = bus.awvalid | bus.wvalid | bus.arvalid | bus.bvalid | bus.rvalid
        m.submodules.csr = clock_gate(m, platform, "csr", used, SETTLING)(csr)
        tasks = [getattr(self, f"{queue}_task") if queue != "main" else self.task for queue in issue.queues]
        events = Cat(
            self.reset, supervisor.start, supervisor.resume, csr.look, csr.written,
            *(getattr(self, f"{queue}_done") for queue in issue.queues),
            *(getattr(self, f"{source}_result_valid") for source in result_sources(config)),
            self.fetch.beats.valid, *(task.valid & task.ready for task in tasks),
        )  # fmt: skip
        busy = fetch.busy | issue.busy
        if config.predicts:
            phases, gate = PhaseControl(), Gate()
            busy |= phases.busy | gate.busy
        front = clock_gate(m, platform, "front", events.any() | busy, SETTLING, reset=False)
        for name, block in (("fetch", fetch), ("issue", issue), ("exponents", exponents), ("hyper", hyper)):
            m.submodules[name] = front(ResetInserter(self.reset)(block))
        wiring.connect(m, wiring.flipped(self.bus), csr.bus)
        wiring.connect(m, wiring.flipped(self.fetch), fetch.client)
        self._supervise(m, csr, supervisor, fetch, issue)
        self._run(m, csr, batches, fetch, issue)
        self._work(m, fetch, issue, exponents, hyper)
        self._tables(m, csr, exponents, hyper)
        self._count(m, csr, counters, batches, fetch, supervisor)
        if config.predictor_on_chip:
            m.d.comb += self.predictor_window.eq(csr.predictor)
        if config.predicts:
            rst = Signal()
            m.d.comb += rst.eq(ResetSignal(allow_reset_less=True))
            whole = ResetInserter(rst)
            m.submodules.phases, m.submodules.gate = front(whole(phases)), front(whole(gate))
            self._schedule(m, csr, batches, counters, fetch, phases)
            self._quality(m, csr, fetch, issue, gate)
            m.d.comb += phases.gate_open.eq(gate.open)
        if config.flips_signs:
            m.d.comb += [self.signs.seed.eq(csr.seed), self.signs.batch.eq(phases.batch)]
        if config.drops:
            m.d.comb += [self.drop_key.seed.eq(csr.seed), self.drop_key.batch.eq(batches.batch)]
        for i in range(N_REGIONS):
            m.d.comb += [
                self.regions[i].start.eq(getattr(csr, f"region{i}_start")),
                self.regions[i].end.eq(getattr(csr, f"region{i}_end")),
            ]
        return m

    def _supervise(self, m, csr, supervisor, fetch, issue):
        """Start, stop, errors, status, interrupt."""
        m.d.comb += [
            supervisor.finished.eq(fetch.finished), supervisor.waiting.eq(fetch.waiting),
            csr.status.eq(supervisor.status), csr.error.eq(supervisor.error.code),
            csr.error_index.eq(supervisor.error.index),
            self.halt.eq(supervisor.halt), self.reset.eq(supervisor.reset),
            self.irq.eq(csr.irq_enable & supervisor.event),
            fetch.start.eq(supervisor.start), fetch.resume.eq(supervisor.resume),
            fetch.stopping.eq(supervisor.stopping),
            self.stop.eq(supervisor.stop), self.lost.eq(supervisor.lost), issue.until.eq(supervisor.error.index),
        ]  # fmt: skip
        # Registered, so that no path leads from the ports to all that depends on a start or a stop.
        m.d.sync += [
            supervisor.command.eq(Mux(csr.written.control, csr.write_data, 0)), supervisor.idle.eq(self.idle),
            *(losses[: self.n_errors].eq(mine) for losses, mine in (
                (supervisor.losses[core], self.losses[core]) for core in range(self.config.n_cores)
            )),
            *(supervisor.errors[i].eq(self.errors[i]) for i in range(self.n_errors)),
            supervisor.errors[self.n_errors].eq(fetch.error), supervisor.quiet.eq(issue.complete & ~self.writing.any()),
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

    def _schedule(self, m, csr, batches, counters, fetch, phases):
        """The phase of each batch, in runs whose PHASE leaves it to the schedule."""
        assert BatchCounter.LOCATE_CYCLES > FLUSH_CYCLES  # so long nothing is counted before the phase changes
        asked = csr.phase >= AS_SCHEDULED
        scheduled = Signal()
        phase = Mux(scheduled, phases.phase, batches.phase)
        with m.If(fetch.begin):
            m.d.sync += scheduled.eq(asked)
        m.d.comb += [
            phases.decide.eq(fetch.begin & asked | fetch.batch_end & ~batches.last & scheduled),
            phases.ready.eq(batches.located), fetch.located.eq(batches.located & ~phases.busy & ~phases.decide),
            fetch.phase.eq(phase), counters.phase.eq(phase), csr.phase_now.eq(phase),
            phases.warmup.eq(csr.warmup_epochs), phases.batches.eq(csr.epoch_batches), phases.entries.eq(csr.entries),
            phases.index.eq(csr.entry), phases.show.eq(csr.look), phases.value.eq(csr.write_data),
            phases.written.eq(csr.writing),
        ]  # fmt: skip
        for place, names in (("entry", ("epochs", "lengths")), ("position", ("epoch", "batch", "run"))):
            for name in names:
                m.d.comb += [
                    getattr(csr, f"{place}_{name}").eq(getattr(phases, name)),
                    getattr(phases, f"set_{name}").eq(csr.written[f"{place}_{name}"]),
                ]

    def _quality(self, m, csr, fetch, issue, gate):
        """Connect the gate, to which COMMIT gives predictions' verdict, and Adam's registers."""
        commit = delayed(m, fetch.commit, 1)  # there is time while it adjusts exponents
        m.d.comb += [
            gate.quality_valid.eq(self.quality_valid), gate.quality.eq(self.quality),
            gate.threshold.eq(data.View(ThresholdLayout, csr.gate_threshold)),
            gate.clear.eq(delayed(m, self.reset | fetch.begin | fetch.batch_end, 1)), gate.commit.eq(commit),
            gate.set.eq(csr.written.gate), gate.value.eq(csr.write_data), csr.gate.eq(gate.open),
            fetch.settled.eq(issue.settled & ~gate.busy), self.commit.eq(commit), self.begin.eq(gate.clear),
            self.adam_value.eq(csr.write_data),
        ]  # fmt: skip
        for i in (1, 2):
            shown, strobe = getattr(csr, f"adam_power{i}"), getattr(self, f"set_adam_power{i}")
            m.d.comb += [shown.eq(getattr(self, f"adam_power{i}")), strobe.eq(csr.written[f"adam_power{i}"])]

    def _work(self, m, fetch, issue, exponents, hyper):
        """Connect commands on their way to the engines, and results on their way back."""
        assert exponents.lookup_latency >= hyper.lookup_latency  # issue waits for the longer lookup only
        wiring.connect(m, fetch.work, issue.work)
        wiring.connect(m, issue.exponents, exponents.lookup)
        wiring.connect(m, issue.hyper, hyper.lookup)
        wiring.connect(m, issue.task, wiring.flipped(self.task))
        wiring.connect(m, issue.update_task, wiring.flipped(self.update_task))
        wiring.connect(m, fetch.adjust, exponents.adjust)
        m.d.comb += [
            fetch.given.eq(issue.given), fetch.settled.eq(issue.settled),
            *(getattr(issue, f"{queue}_done").eq(getattr(self, f"{queue}_done")) for queue in issue.queues),
            *(getattr(exponents, name).eq(getattr(self, name)) for name in result_ports(self.config)),
        ]  # fmt: skip
        if self.config.n_cores > 1:
            wiring.connect(m, issue.predictor_task, wiring.flipped(self.predictor_task))

    def _tables(self, m, csr, exponents, hyper):
        """Connect the registers that show table entries."""
        m.d.comb += [
            exponents.index.eq(csr.tensor), exponents.show.eq(csr.look), exponents.set.eq(csr.written.exponent),
            exponents.value.eq(data.View(exponents.layout, csr.write_data[: exponents.layout.size])),
            csr.exponent.eq(exponents.shown),
            hyper.index.eq(csr.hyper), hyper.show.eq(csr.look), hyper.set.eq(csr.written.hyper_value),
            hyper.value.eq(data.View(HyperLayout, csr.write_data[: HyperLayout.size])),
            csr.hyper_value.eq(hyper.shown),
        ]  # fmt: skip

    def _count(self, m, csr, counters, batches, fetch, supervisor):
        m.d.comb += [
            counters.counts.eq(counts_of_run(m, self.counts, fetch.running & supervisor.busy, fetch.executed)),
            counters.phase.eq(batches.phase), counters.clear.eq(supervisor.clear_counters),
            counters.index.eq(csr.counter), counters.show.eq(csr.look), csr.counter_value.eq(counters.shown),
        ]  # fmt: skip
