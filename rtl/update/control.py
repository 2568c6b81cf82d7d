"""Control of the update unit: takes a command through its steps to its end, or to a fault."""

from amaranth import Cat, Module, Mux, Signal

from ...spec.config import Config
from ...spec.errors import ErrorCode
from ..dma.write_stop import WriteStop
from ..lib.delay import delayed
from .check import UpdateCheck

__all__ = ["run_commands"]


def run_commands(m: Module, config: Config, unit, task, reader, writer, results, final):
    """Take commands at ``unit.i`` into ``task``, check each, let it run, report its ``results`` and its end.

    ``m`` is the module of ``unit``, whose ports for commands, results, faults and stops are driven here. ``final``
    pulses when the last weight is in the ``results``, which stand until ``reader`` starts again.
    """
    m.submodules.check = check = UpdateCheck(config)
    m.d.comb += [
        check.addr.eq(reader.addr),
        check.count.eq(task.count),
        check.regions.eq(unit.regions),
    ]
    refused = check.valid & (check.code != ErrorCode.NONE)
    begin = check.valid & ~refused
    empty = delayed(m, task.count == 0, 1)
    # Many signals wait for these, so each is a register, high in START.
    m.d.comb += [reader.start.eq(delayed(m, begin, 1)), writer.start.eq(delayed(m, begin & ~task.dry, 1))]
    stopped = Signal()
    idle = Signal(init=1)  # no command runs: all of the task's registers wait for it
    _faults(m, unit, task, stopped, refused, check.code, reader, writer)
    _stop(m, unit, task, stopped)
    with m.FSM() as fsm:
        with m.State("IDLE"):
            m.d.comb += unit.i.ready.eq(~stopped)
            with m.If(unit.i.valid & unit.i.ready):
                m.d.sync += idle.eq(0)
                m.next = "BEGIN"
                if config.predicts:
                    with m.If(unit.i.p.adam):
                        m.next = "RATE"
        with m.State("BEGIN"):
            m.d.comb += check.start.eq(1)
            m.next = "CHECK"
            _keep_exponents(m, config, task)
        with m.State("CHECK"), m.If(check.valid):
            m.next = "START"
            with m.If(refused):
                m.next = "IDLE"
                m.d.sync += idle.eq(1)
        with m.State("START"):
            m.next = "RUN"
            with m.If(empty):
                m.next = "WRITE"
        with m.State("RUN"), m.If(final):
            m.next = "WRITE"
        with m.State("WRITE"), m.If(writer.idle & ~stopped):
            m.next = "RESULT_V"
        _report(m, config, unit, task, stopped, idle, results)
        if config.predicts:
            m.d.comb += [check.with_d.eq(task.adam), check.without_v.eq(task.keep)]
            _predicting(m, unit, task, stopped, results[-1])
    with m.If(idle):
        m.d.sync += task.eq(unit.i.p)
    m.d.comb += unit.busy.eq(~fsm.ongoing("IDLE"))


def _report(m, config, unit, task, stopped, idle, results):
    """Give the results of momentum, unless that is kept, and weights, and end the command."""
    with m.State("RESULT_V"):
        keep = task.keep if config.predicts else 0
        m.d.comb += [unit.result_valid.eq(~stopped & ~keep), unit.result.eq(results[0])]
        m.next = "RESULT_W"
    with m.State("RESULT_W"):
        m.d.comb += [unit.result_valid.eq(~stopped), unit.result.eq(results[1])]
        m.next = "DONE"
        if config.predicts:
            with m.If(task.adam | task.quality):
                m.next = "RESULT_3"
    with m.State("DONE"):
        m.d.comb += unit.done.eq(~stopped)
        m.next = "IDLE"
        m.d.sync += idle.eq(1)


def _predicting(m, unit, task, stopped, result):
    """Get the rate before ADAM begins, and give the third result, where gradients are predicted."""
    with m.State("RATE"):
        m.d.comb += unit.rate.start.eq(1)
        m.next = "CORRECT"
    with m.State("CORRECT"), m.If(unit.rate.done):
        m.next = "BEGIN"
    with m.State("RESULT_3"):
        m.d.comb += [
            unit.result_valid.eq(~stopped), unit.result.eq(result),
            unit.quality_valid.eq(~stopped & task.quality & ~task.dry),
        ]  # fmt: skip
        m.next = "DONE"
    m.d.comb += [
        unit.rate.dry.eq(task.dry), unit.rate.rate.eq(Cat(task.ml, task.xl)), unit.rate.beta1.eq(task.mm),
        unit.rate.beta2.eq(task.more[0].mantissa),
    ]  # fmt: skip


def _keep_exponents(m, config, task):
    """Give a dry command exponents that keep every value."""
    with m.If(task.dry):
        m.d.sync += [task.ew_next.eq(task.ew), task.ev_next.eq(Mux(task.eg > task.ev, task.eg, task.ev))]
        if config.predicts:
            m.d.sync += task.ed_next.eq(Mux(task.eg > task.ed, task.eg, task.ed))


def _stop(m, unit, task, stopped):
    """Hold writes back in an orderly stop."""
    m.submodules.write_stop = write_stop = WriteStop()
    m.d.comb += [
        write_stop.stop.eq(unit.stop), write_stop.command.eq(task.index), write_stop.completed.eq(task.index),
        write_stop.begun.eq(unit.write.request.valid & unit.write.request.ready),
        write_stop.complete.eq(unit.done), write_stop.lost.valid.eq(stopped),
        write_stop.lost.index.eq(task.index),
        unit.hold.eq(write_stop.hold), unit.writing.eq(write_stop.writing),
    ]  # fmt: skip


def _faults(m, unit, task, stopped, refused, refusal, reader, writer):
    """Report the first fault and stop."""
    faulty = refused | reader.fault | writer.fault
    m.d.comb += [
        writer.hold.eq(stopped),
        unit.fault.eq(faulty & ~stopped),
        unit.fault_command.eq(task.index),
        unit.fault_code.eq(Mux(refused, refusal, Mux(reader.fault, ErrorCode.READ_FAULT, ErrorCode.WRITE_FAULT))),
    ]
    with m.If(faulty):
        m.d.sync += stopped.eq(1)
