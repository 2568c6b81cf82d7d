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
"""How long a reset takes to come, and to go: more than there are blocks in its way."""


class Supervisor(wiring.Component):
    """What CONTROL does, what STATUS shows.

    ``command`` is what is written to CONTROL in this cycle, 0 if nothing. START, while neither busy nor
    in error, raises ``reset`` and then pulses ``start``; ``finished`` ends the run, two cycles later. RESUME is
    passed on as ``resume`` while ``waiting``; RESET_COUNTERS as ``clear_counters``.

    ``reset`` is high for ``reset_cycles``, a power of two, and then low for as many before anything else happens: it
    travels from block to block (see :class:`.core.Core`), and there is a time at which it has reached all of them and
    left none. Behind a reset of the supervisor itself it is high too, and ``busy`` with it: other blocks have no other.
    ``clear_counters`` then, for what they may have done until it came.

    ``errors`` stop the machine in two steps. ``latency`` cycles after the first report ``stop`` tells what failed; of
    several reports, later ones too, the one with the lowest index counts. Once it has been ``quiet`` for more than
    ``latency`` cycles behind that, ``halt`` rises: no memory transaction may be started any more. When all are
    ``idle``, ``busy`` falls; that may be told a cycle late, of what began up to the cycle in which ``halt`` rose. CLEAR
    halts at once; then, or when it comes after an error, ``reset`` rises, and the machine is as before START. ``busy``
    is high while CLEAR is being done; START takes effect behind it.
    ``stopping``: no new command may be taken up. ``losses`` are, for each queue of compute commands, those of
    ``errors`` after which its commands can't be completed from this one on; ``lost`` follows ``latency`` cycles later.

    ``event``: STATUS shows HOST, DONE or ERROR.
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
        settling, news, halting = Signal(), Signal(), Signal()  # the last: halt rises, a cycle before it does
        self._error(m, news, halting)
        asked = {bit: (self.command & bit).any() for bit in Control}
        done = Signal()
        finished = delayed(m, self.finished, 1)  # it comes from far away
        booting = Signal(init=1)
        held = Signal()  # stop has taken effect
        calm = Signal(self.latency)  # whether it was quiet, in cycles before, when no earlier report could be under way
        reported, pending = Signal(), Signal()  # a report is, or was, on its way
        was_idle = Signal()  # the arbiters know of halt a cycle later, and take bursts in that in which it rises
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
        """From START to the end or an error, and back by CLEAR."""
        takes_start, starts = Signal(), Signal()  # START counts now; it is what the reset is for, not CLEAR alone
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
        """Keep the report of the earliest command; ``news``: there is an earlier one than before."""
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
        """Keep the earliest report; returns whether one changes what is kept. A cycle goes for comparing indices."""
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
        """Of the reports that are ``wanted`` the one with the lowest index, by a tree with registers at each level."""
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
