"""Which writes an orderly stop lets through."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..lib.interfaces import LostLayout, StopLayout

__all__ = ["WriteStop"]


class WriteStop(wiring.Component):
    """Decides over the bursts of ``command``, which come in the order of commands, during ``stop``.

    ``begun`` in each cycle in which a burst of ``command`` begins; ``complete`` when all of ``completed`` is written.
    ``hold``, a cycle after what it depends on: no burst may begin. Let through are those of commands before the
    failing one, and of those behind it that have begun to write, but none from ``lost`` on. ``writing``: such a one
    isn't complete.
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
