"""Supervisor: starts and stops the machine, and keeps the first error."""

from contextlib import contextmanager

from amaranth import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..spec.registers import Control, Status
from .interfaces import ErrorLayout

__all__ = ["Supervisor"]


class Supervisor(wiring.Component):
    """What CONTROL does, what STATUS shows.

    ``command`` is what is written to CONTROL in this cycle, 0 if nothing. START, while neither busy nor
    in error, pulses ``reset`` and then ``start``; ``finished`` ends the run. RESUME is passed on as
    ``resume`` while ``waiting``; RESET_COUNTERS as ``clear_counters``.

    The first of ``errors`` while busy (of several in one cycle the one with the lowest index) raises ``halt``:
    no memory transaction may be started any more. When all are ``idle``, ``busy`` falls. CLEAR does the same
    without an error; then, or when it comes after an error, ``reset`` pulses, and the machine is as before
    START. ``busy`` is high while CLEAR is being done.

    ``event``: STATUS shows HOST, DONE or ERROR.
    """

    def __init__(self, n_errors: int):
        self.n_errors = n_errors
        super().__init__({
            "command": In(Control), "finished": In(1), "waiting": In(1), "idle": In(1),
            "errors": In(data.ArrayLayout(ErrorLayout, n_errors)),
            "start": Out(1), "resume": Out(1), "clear_counters": Out(1), "halt": Out(1), "reset": Out(1),
            "busy": Out(1), "status": Out(Status), "event": Out(1), "error": Out(ErrorLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        first = self._first_error(m)
        asked = {bit: (self.command & bit).any() for bit in Control}
        done = Signal()
        failed = self.error.valid & ~self.busy
        was_idle = Signal()  # the arbiters may have taken a burst in the cycle in which halt rose
        m.d.comb += [
            self.resume.eq(asked[Control.RESUME] & self.waiting & ~self.halt),
            self.clear_counters.eq(asked[Control.RESET_COUNTERS]),
            self.status.eq(Cat(self.busy, self.waiting & self.busy, done, failed)),
            self.event.eq((self.status & (Status.HOST | Status.DONE | Status.ERROR)).any()),
        ]
        m.d.sync += was_idle.eq(self.halt & self.idle)

        @contextmanager
        def state(name):
            with m.State(name):
                yield
                with m.If(asked[Control.CLEAR]):
                    m.next = "CLEAR"

        with m.FSM():
            with state("IDLE"), m.If(asked[Control.START]):
                m.d.sync += done.eq(0)
                m.next = "RESET"
            with state("RESET"):
                m.d.comb += [self.busy.eq(1), self.reset.eq(1)]
                m.next = "START"
            with state("START"):
                m.d.comb += [self.busy.eq(1), self.start.eq(1)]
                m.next = "RUN"
            with state("RUN"):
                m.d.comb += self.busy.eq(1)
                with m.If(first.valid):
                    m.d.sync += self.error.eq(first)
                    m.next = "STOP"
                with m.Elif(self.finished):
                    m.d.sync += done.eq(1)
                    m.next = "IDLE"
            with state("STOP"):
                m.d.comb += [self.busy.eq(1), self.halt.eq(1)]
                with m.If(was_idle & self.idle):
                    m.next = "STOPPED"
            with state("STOPPED"):
                m.d.comb += self.halt.eq(1)
            with state("CLEAR"):
                m.d.comb += [self.busy.eq(1), self.halt.eq(1)]
                with m.If(was_idle & self.idle):
                    m.d.comb += self.reset.eq(1)
                    m.d.sync += self.error.eq(0)
                    m.next = "IDLE"
        return m

    def _first_error(self, m):
        """The valid report with the lowest index."""
        first = self.errors[0]
        for i in range(1, self.n_errors):
            other = self.errors[i]
            earlier = Signal(ErrorLayout, name=f"earlier{i}")
            with m.If(other.valid & (~first.valid | (other.index < first.index))):
                m.d.comb += earlier.eq(other)
            with m.Else():
                m.d.comb += earlier.eq(first)
            first = earlier
        return first
