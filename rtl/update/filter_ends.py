"""Ends of filters in an update's groups: places of biases, which have no gradient where gradients are predicted."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.interfaces import CommandLayout

__all__ = ["FilterEnds"]


class FilterEnds(wiring.Component):
    """Counts weights, filter by filter, and marks the last of each.

    Members
    -------
    start : In(1)
        the next group is the command's first, which begins with a filter
    filter : In(24)
        weights of a filter, at least ``update_lanes``; 0: nothing is marked; stands since the cycle before ``start``
    taken : In(1)
        go to the next group
    o : Out(update_lanes)
        the lanes with the last weight of a filter; from the cycle after ``start`` on
    """

    def __init__(self, config: Config):
        self._lanes = config.update_lanes
        super().__init__({
            "start": In(1), "filter": In(CommandLayout["y_pitch"].shape), "taken": In(1), "o": Out(self._lanes),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        lanes = self._lanes
        left = Signal.like(self.filter)  # weights of the filter, from the group's first on
        following, some = Signal(len(left)), Signal()
        m.d.sync += some.eq(self.filter != 0)
        m.d.comb += following.eq(Mux(self.start, self.filter, left - lanes + Mux(left <= lanes, self.filter, 0)))
        with m.If(self.start | self.taken):
            m.d.sync += left.eq(following)
            m.d.sync += (self.o[lane].eq(some & (following == lane + 1)) for lane in range(lanes))
        return m
