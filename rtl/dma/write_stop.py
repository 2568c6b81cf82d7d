"""Decides which writes an orderly stop lets through."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..lib.interfaces import LostLayout, StopLayout

__all__ = ["WriteStop"]


class WriteStop(wiring.Component):
    """Decides about the bursts of ``command`` during ``stop``.

    Bursts come in the order of commands. Let through are bursts of commands before the failing one, and of later
    commands that have begun to write; but none of commands from ``lost`` on.

    Members
    -------
    stop, lost : In(StopLayout), In(LostLayout)
        the command that failed; the first one that can't be completed
    command : In(16)
        command of the next burst
    begun : In(1)
        a burst of ``command`` begins
    complete, completed : In(1), In(16)
        all of command ``completed`` is written
    hold : Out(1)
        no burst may begin
    writing : Out(1)
        a command that is let through has begun to write and isn't complete

    Timing
    ------
    ``hold`` is a cycle late.
    """

    def __init__(self):
        super().__init__({
            "stop": In(StopLayout), "command": In(16), "begun": In(1), "complete": In(1), "completed": In(16),
            "lost": In(LostLayout), "hold": Out(1), "writing": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        failing = self.stop.index
        latest = Signal(16)  # the latest command that has begun to write
        valid = Signal()
        with m.If(self.complete & (self.completed == latest)):
            m.d.sync += valid.eq(0)
        with m.If(self.begun):
            m.d.sync += [valid.eq(1), latest.eq(self.command)]
        goes_on = valid & (latest == self.command) & (self.command != failing)
        m.d.sync += self.hold.eq(
            (self.stop.stopping & (self.command >= failing) & ~goes_on)
            | (self.lost.valid & (self.command >= self.lost.index))
        )
        m.d.comb += self.writing.eq(valid & (latest != failing) & ~(self.lost.valid & (latest >= self.lost.index)))
        return m
