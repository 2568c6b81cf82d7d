"""Command fetch: walks through a program and decides for each command if and when it is executed."""

from functools import reduce
from operator import or_

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import Opcode
from ...spec.config import Config
from ...spec.errors import ErrorCode
from ...spec.registers import N_PHASES
from ..lib.interfaces import ErrorLayout, ReadClient
from .command_check import CommandCheck, is_work
from .dispatch import WaitLayout
from .exponents import Adjust, ExponentAdjust
from .issue import WorkLayout
from .prefetch import Prefetch

__all__ = ["Fetch"]

READING = ("COMMAND", "CHECK", "JUDGE", "SETTLE", "WORK", "ADJUST", "NEXT")
"""States in which commands are read."""


class Fetch(wiring.Component):
    """Walks through the program at ``program``, from START to its last batch.

    Parameters
    ----------
    config : Config
        variants that predict gradients wait for the phase of each batch

    Members
    -------
    program, calibrate : In(32), In(1)
        registers PROGRAM and CALIBRATE
    phase, last : In(range(N_PHASES)), In(1)
        phase of the batch; no batch is left after it
    located : In(1)
        the batch's entry of the input ring is known, and its phase
    start : In(1)
        begin; only while idle. The shadow exponents are cleared first
    begin : Out(1)
        pulses before the first command, once ``located``
    running : Out(1)
        high from ``begin`` to ``finished``, except at HOST. Where ``config.predicts``, also low while waiting for
        ``located`` after ``begin`` and ``batch_end``: nothing is read then, so that the phase can change
    executed : Out(1)
        pulses for each command that isn't skipped
    waiting, resume : Out(1), In(1)
        high at HOST; goes on after HOST
    batch_end, finished : Out(1)
        pulse at each END; with the last batch's END
    commit : Out(1), where ``config.predicts``
        pulses when a COMMIT begins
    work, given, settled
        compute and UPDATE commands on their way to the queues; see :class:`.issue.Issue`
    adjust : Out(ExponentAdjust(config))
        adjustments of exponents that commands ask for
    stopping : In(1)
        nothing counts as settled
    error : Out(ErrorLayout)
        the command that was refused; comes once all commands before it are complete and stays until reset
    client : Out(ReadClient(config))
        reads commands
    busy : Out(1)
        low only while the block can do nothing but wait for other blocks
    """

    def __init__(self, config: Config):
        self.config = config
        self.first = "BATCH" if config.predicts else "COMMAND"
        super().__init__({
            "program": In(32), "calibrate": In(1), "phase": In(range(N_PHASES)), "last": In(1), "located": In(1),
            "start": In(1), "resume": In(1), "stopping": In(1),
            "begin": Out(1), "running": Out(1), "waiting": Out(1), "batch_end": Out(1), "finished": Out(1),
            "executed": Out(1), "error": Out(ErrorLayout), "busy": Out(1),
            "client": Out(ReadClient(config)), "adjust": Out(ExponentAdjust(config)),
            "work": Out(stream.Signature(WorkLayout)), "given": In(WaitLayout), "settled": In(1),
            **({"commit": Out(1)} if config.predicts else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.prefetch = prefetch = Prefetch(self.config)
        m.submodules.check = check = CommandCheck(self.config)
        wiring.connect(m, wiring.flipped(self.client), prefetch.client)
        fetched = prefetch.commands.p
        opcode = fetched.command.opcode

        work = Signal()
        leaves = Signal()  # it is HOST or END
        skip = Signal()
        code = Signal(ErrorCode)
        refused = Signal()
        header = Signal()
        ending = Signal()  # END is left, not HOST
        calibrating = Signal()
        tried = Signal()
        # In the cycle before, the condition that SETTLE or LEAVE waits for held; nothing can have reported since.
        calm = Signal()
        gone = Signal()
        located = Signal()  # registered too; no state that needs it comes in the cycle in which it ends
        m.d.sync += located.eq(self.located)
        m.d.comb += [
            prefetch.program.eq(self.program),
            check.fetched.eq(fetched), check.phase.eq(self.phase), check.given.eq(self.given),
            self.work.p.command.eq(fetched.command), self.work.p.index.eq(fetched.index),
            self.work.p.dry.eq(calibrating & ~tried),
            self.error.code.eq(code), self.error.index.eq(fetched.index),
            self.adjust.out.eq(fetched.command.out_id), self.adjust.b.eq(fetched.command.b_id),
            self.adjust.how.eq(Mux(work, Adjust.TRIAL, Adjust.COMMIT)),
        ]  # fmt: skip
        self._tracked(m, fetched.command)
        with m.FSM() as fsm:
            self._begin(m, located)
            with m.State("COMMAND"):
                m.d.sync += [
                    work.eq(is_work(opcode)), leaves.eq((opcode == Opcode.HOST) | (opcode == Opcode.END)),
                    header.eq(opcode == Opcode.HEADER), calibrating.eq(self.calibrate), tried.eq(0),
                ]  # fmt: skip
                with m.If(prefetch.commands.valid & located):
                    m.next = "CHECK"
            self._judge(m, check, skip, code, refused, header, work & ~refused & ~calibrating)
            self._settle(m, calm, gone, refused, work & ~tried, leaves, ending)
            self._hand_over(m, work, tried)
            with m.State("NEXT"):
                m.d.comb += [prefetch.commands.ready.eq(1), self.executed.eq(~skip)]
                m.d.sync += ending.eq(opcode == Opcode.END)
                m.next = "COMMAND"
                with m.If(leaves & ~skip):
                    m.next = "LEAVE"
            with m.State("FAILED"):
                m.d.comb += self.error.valid.eq(1)
        self._reports(m, fsm, prefetch, calm, gone, ending)
        return m

    def _judge(self, m, check, skip, code, refused, header, at_once):
        """Check the command; work that is handed out ``at_once`` doesn't wait for the commands before it."""
        with m.State("CHECK"):
            m.d.sync += [skip.eq(check.skip), code.eq(check.code), refused.eq(check.code != ErrorCode.NONE)]
            m.next = "JUDGE"
        with m.State("JUDGE"):
            with m.If(skip | header & ~refused):
                m.next = "NEXT"
            with m.Elif(at_once):
                m.next = "WORK"
            with m.Else():
                m.next = "SETTLE"

    def _hand_over(self, m, work, tried):
        """Hand work out; when calibrating, first to try it, and again with its exponents adjusted."""
        with m.State("WORK"):
            m.d.comb += self.work.valid.eq(1)
            with m.If(self.work.ready & self.work.p.dry):
                m.d.sync += tried.eq(1)
                m.next = "SETTLE"
            with m.Elif(self.work.ready):
                m.next = "NEXT"
        with m.State("ADJUST"), m.If(self.adjust.done):
            m.next = "NEXT"
            with m.If(work):
                m.next = "WORK"

    def _reports(self, m, fsm, prefetch, calm, gone, ending):
        """Drive the outputs that follow from the state alone."""
        m.d.comb += [
            prefetch.enable.eq(reduce(or_, map(fsm.ongoing, READING))),
            self.waiting.eq(fsm.ongoing("HOST")),
            self.running.eq(prefetch.enable | fsm.ongoing("LEAVE") | fsm.ongoing("FAILED")),
            self.batch_end.eq(gone & ending), self.finished.eq(self.batch_end & self.last),
            prefetch.rewind.eq(self.begin | self.batch_end),
        ]  # fmt: skip
        m.d.sync += [
            calm.eq(fsm.ongoing("SETTLE") & self.settled & ~self.stopping & ~calm),
            gone.eq(fsm.ongoing("LEAVE") & prefetch.quiet & ~self.stopping & ~gone),
        ]
        waits = reduce(or_, (
            *map(fsm.ongoing, ("IDLE", "HOST", "FAILED")), fsm.ongoing("WORK") & ~self.work.ready,
            fsm.ongoing("SETTLE") & ~self.settled, fsm.ongoing("LEAVE") & ~prefetch.quiet,
        ))  # fmt: skip
        m.d.comb += self.busy.eq(prefetch.busy | ~waits)
        if self.config.predicts:
            m.d.comb += self.commit.eq(self.adjust.start & (self.adjust.how == Adjust.COMMIT))

    def _tracked(self, m, command):
        """Name the tensors whose maximum a command reports."""
        adjust = self.adjust
        update = command.opcode == Opcode.UPDATE
        if self.config.predicts:
            adam = command.opcode == Opcode.ADAM
            m.d.comb += [
                adjust.d.eq(Mux(adam, command.d_id, command.scale_id)),
                adjust.track_d.eq(adam | update & command.quality),
            ]
            update = update | adam
        m.d.comb += [adjust.track_out.eq(command.track | update), adjust.track_b.eq(update)]

    def _begin(self, m, located):
        """Go from ``start`` to the first command."""
        with m.State("IDLE"), m.If(self.start):
            m.d.comb += [self.adjust.start.eq(1), self.adjust.how.eq(Adjust.CLEAR)]
            m.next = "CLEAR"
        with m.State("CLEAR"):
            m.d.comb += self.adjust.how.eq(Adjust.CLEAR)
            with m.If(self.adjust.done):
                m.next = "LOCATE"
        with m.State("LOCATE"), m.If(located):
            m.d.comb += self.begin.eq(1)
            m.next = self.first
        if self.config.predicts:
            with m.State("BATCH"), m.If(located):
                m.next = "COMMAND"

    def _settle(self, m, calm, gone, refused, untried, leaves, ending):
        """Wait for everything before this command; leave the program at HOST and END."""
        with m.State("SETTLE"), m.If(calm):
            with m.If(refused):
                m.next = "FAILED"
            with m.Elif(untried):
                m.next = "WORK"
            with m.Elif(leaves):
                m.next = "NEXT"
            with m.Else():
                m.d.comb += self.adjust.start.eq(1)
                m.next = "ADJUST"
        with m.State("LEAVE"), m.If(gone):
            m.next = "HOST"
            with m.If(ending):
                m.next = self.first
                with m.If(self.last):
                    m.next = "IDLE"
        with m.State("HOST"), m.If(self.resume):
            m.next = "COMMAND"
