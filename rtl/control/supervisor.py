"""Supervisor: starts and stops the machine, and keeps the error of the earliest command."""

from contextlib import contextmanager

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.registers import Control, Status
from ..lib.delay import delayed
from ..lib.interfaces import ErrorLayout, LostLayout, StopLayout

__all__ = ["RESET_CYCLES", "Supervisor"]

RESET_CYCLES = 32
"""Cycles that a reset is high, and then low: more than the blocks on its way."""


class Supervisor(wiring.Component):
    """Carries out CONTROL and drives STATUS.

    An error stops the machine in two steps. First ``stop`` names the command that failed: of several reports, later
    ones too, the one with the lowest index counts. Commands before it are finished. Then ``halt`` rises, after which no
    memory transaction may be started. When all blocks are ``idle``, ``busy`` falls. CLEAR halts at once; then, or when
    it comes after an error, it resets the machine to its state before START. A START during CLEAR takes effect after
    it.

    Parameters
    ----------
    n_errors : int
        reporters of errors
    n_queues : int
        queues of compute commands
    reset_cycles : int
        length of a reset, a power of two. The reset travels from block to block (see :class:`.core.Core`): it is high
        for this long and then low for as long before anything else happens, so that it has reached and left every block

    Members
    -------
    command : In(Control)
        the value written to CONTROL in this cycle; 0 for none
    start : Out(1)
        pulses after START's reset; START counts only while neither busy nor in error
    finished : In(1)
        the program has ended
    waiting, resume : In(1), Out(1)
        the program is at HOST; RESUME lets it go on
    clear_counters : Out(1)
        set the counters to 0: at RESET_COUNTERS, and during the reset that follows the supervisor's own
    errors : In(array of ErrorLayout)
        reports
    losses : In(array of bits)
        for each queue, those of ``errors`` after which its commands can't be completed from the failing one on
    stopping : Out(1)
        no new command may be taken up
    stop, lost : Out(StopLayout), Out(array of LostLayout)
        the command that failed; for each queue, the first command that can't be completed
    quiet : In(1)
        all that an orderly stop lets finish is finished
    halt : Out(1)
        no memory transaction may be started
    idle : In(1)
        no memory transaction is under way; may be a cycle late, for transactions that began before ``halt`` rose
    reset : Out(1)
        resets the other blocks; also high after a reset of the supervisor itself, as they have no other
    busy, status, error : Out(1), Out(Status), Out(ErrorLayout)
        the machine is running, stopping, being cleared or being reset; registers STATUS, ERROR and ERROR_INDEX
    event : Out(1)
        STATUS shows HOST, DONE or ERROR

    Attributes
    ----------
    latency : int
        cycles from an error's report to ``stop`` and ``lost``

    Timing
    ------
    ``finished`` ends the run two cycles later. ``stop`` and ``lost`` follow an error ``latency`` cycles later; ``halt``
    rises once ``quiet`` has been high for more than ``latency`` cycles after that.
    """

    def __init__(self, n_errors: int, n_queues: int = 1, reset_cycles: int = RESET_CYCLES):
        self.n_errors = n_errors
        self._reset_cycles = reset_cycles
        self.latency = (n_errors - 1).bit_length() + 2
        super().__init__({
            "command": In(Control), "finished": In(1), "waiting": In(1), "quiet": In(1), "idle": In(1),
            "errors": In(data.ArrayLayout(ErrorLayout, n_errors)), "losses": In(data.ArrayLayout(n_errors, n_queues)),
            "start": Out(1), "resume": Out(1), "clear_counters": Out(1), "halt": Out(1, init=1),
            "reset": Out(1, init=1), "stopping": Out(1), "stop": Out(StopLayout),
            "lost": Out(data.ArrayLayout(LostLayout, n_queues)),
            "busy": Out(1), "status": Out(Status), "event": Out(1), "error": Out(ErrorLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        settling, news, halting = Signal(), Signal(), Signal()  # halting: halt rises in the next cycle
        self._error(m, news, halting)
        asked = {bit: (self.command & bit).any() for bit in Control}
        done = Signal()
        finished = delayed(m, self.finished, 1)  # its source is far away
        booting = Signal(init=1)
        held = Signal()  # stop has taken effect
        calm = Signal(self.latency)  # quiet in each of the last cycles, so that no earlier report can be under way
        reported, pending = Signal(), Signal()  # a report is, or was, on its way
        was_idle = Signal()  # the arbiters see halt a cycle late, and take bursts in the cycle in which it rises
        failed = self.error.valid & ~self.busy
        m.d.comb += [
            self.clear_counters.eq(asked[Control.RESET_COUNTERS] | booting),
            self.status.eq(Cat(self.busy, self.waiting & self.busy & ~self.resume, done, failed)),
            self.event.eq((self.status & (Status.HOST | Status.DONE | Status.ERROR)).any()),
            reported.eq(Cat(error.valid for error in self.errors).any()),
            self.stopping.eq(settling | halting | reported | pending),
        ]
        with m.If(self.reset | reported):
            m.d.sync += pending.eq(~self.reset)
        m.d.sync += [
            self.resume.eq(asked[Control.RESUME] & self.waiting & ~self.stopping),
            held.eq(settling & ~news), self.halt.eq(halting),
            was_idle.eq(delayed(m, self.halt & halting, 1) & self.halt & halting & self.idle),
            calm.eq(Mux(settling & ~news, Cat(self.quiet, calm), 0)),
        ]  # fmt: skip

        self._states(
            m, asked, news, settling, halting, held & self.quiet & calm.all(), was_idle, finished, done, booting
        )
        return m

    def _states(self, m, asked, news, settling, halting, settled, was_idle, finished, done, booting):
        """Go from START to the end or an error, and back by CLEAR."""
        takes_start, starts = Signal(), Signal()  # START counts now; the reset is for a START, not for CLEAR alone
        with m.If(asked[Control.CLEAR]):
            m.d.sync += starts.eq(0)
        with m.Elif(asked[Control.START] & takes_start):
            m.d.sync += [starts.eq(1), done.eq(0)]

        resetting, elapsed = Signal(), Signal(range(2 * self._reset_cycles))  # cycles of the reset
        m.d.sync += [self.reset.eq(resetting & ~elapsed[-1]), elapsed.eq(Mux(resetting, elapsed + 1, 0))]

        @contextmanager
        def state(name):
            with m.State(name):
                yield
                with m.If(asked[Control.CLEAR]):
                    m.next = "CLEAR"

        with m.FSM(init="RESET"):
            with state("IDLE"):
                m.d.comb += takes_start.eq(1)
                with m.If(asked[Control.START]):
                    m.next = "RESET"
            with m.State("RESET"):
                m.d.comb += [self.busy.eq(1), halting.eq(1), resetting.eq(1), takes_start.eq(1)]
                with m.If(elapsed.all()):
                    m.d.sync += booting.eq(0)
                    m.next = "IDLE"
                    with m.If((starts | asked[Control.START]) & ~asked[Control.CLEAR]):
                        m.next = "START"
            with state("START"):
                m.d.comb += [self.busy.eq(1), self.start.eq(1)]
                m.next = "RUN"
            with state("RUN"):
                m.d.comb += self.busy.eq(1)
                with m.If(news):
                    m.next = "SETTLE"
                with m.Elif(finished):
                    m.d.sync += done.eq(1)
                    m.next = "IDLE"
            with state("SETTLE"):
                m.d.comb += [self.busy.eq(1), settling.eq(1)]
                with m.If(settled & ~news):
                    m.next = "STOP"
            with state("STOP"):
                m.d.comb += [self.busy.eq(1), halting.eq(1)]
                with m.If(was_idle & self.idle):
                    m.next = "STOPPED"
            with state("STOPPED"):
                m.d.comb += halting.eq(1)
            with state("CLEAR"):
                m.d.comb += [self.busy.eq(1), halting.eq(1), takes_start.eq(1)]
                with m.If(was_idle & self.idle):
                    m.next = "RESET"

    def _error(self, m, news, halting):
        """Keep the report of the earliest command; ``news``: an earlier one than before has come."""
        listening = self.busy & ~halting
        every = Const(1).replicate(self.n_errors)
        m.d.comb += [
            news.eq(self._kept(m, "first", self._earliest(m, "first", every), self.error, listening)),
            self.stop.stopping.eq(self.error.valid), self.stop.index.eq(self.error.index),
        ]  # fmt: skip
        for queue, lost in enumerate(self.lost):
            loss = self._earliest(m, f"loss{queue}", self.losses[queue])
            self._kept(m, f"loss{queue}", loss, lost, listening)

    def _kept(self, m, name, report, kept, listening):
        """Keep the earliest report; returns a signal that is high when one changes the kept report.

        Comparing indices takes a cycle.
        """
        candidate, earlier = Signal(ErrorLayout, name=f"{name}_candidate"), Signal(name=f"{name}_earlier")
        takes = earlier & listening
        known = Mux(takes, candidate.index <= report.index, kept.valid & (kept.index <= report.index))
        m.d.sync += [candidate.eq(report), earlier.eq(report.valid & ~known)]
        with m.If(takes):
            m.d.sync += [kept[field].eq(candidate[field]) for field in kept.shape().members]
        with m.If(self.reset):
            m.d.sync += [candidate.valid.eq(0), earlier.eq(0), kept.eq(0)]
        return takes

    def _earliest(self, m, name, wanted):
        """The wanted report with the lowest index, found by a tree with registers at each level."""
        reports = []
        for i, error in enumerate(self.errors):
            report = Signal(ErrorLayout, name=f"{name}_{i}")
            m.d.comb += [report.eq(error), report.valid.eq(error.valid & wanted[i])]
            reports.append(report)
        level = 0
        while len(reports) > 1:
            level += 1
            following = []
            for i, report in enumerate(reports[::2]):
                earlier = Signal(ErrorLayout, name=f"{name}_{level}_{i}")
                m.d.sync += earlier.eq(report)
                for other in reports[2 * i + 1 : 2 * i + 2]:
                    with m.If(other.valid & (~report.valid | (other.index < report.index))):
                        m.d.sync += earlier.eq(other)
                with m.If(self.reset):
                    m.d.sync += earlier.valid.eq(0)
                following.append(earlier)
            reports = following
        return reports[0]
