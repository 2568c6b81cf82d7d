"""ADAM commands in the update unit: one weight after the other through the only Adam lane."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from .adam_lane import AdamLane
from .adam_rate import RateLayout
from .adam_scale import AdamScale
from .delay_line import DelayLine
from .hyper import HyperLayout
from .interfaces import UpdateLayout
from .update_lane import ROUNDED_WIDTH
from .update_read import MOMENT_BYTES, GroupLayout

__all__ = ["RateClient", "UpdateAdam"]


class RateClient(wiring.Signature):
    """The use of an :class:`.adam_rate.AdamRate`, seen from who wants a rate; members are named after its ports."""

    def __init__(self):
        super().__init__({
            "start": Out(1), "dry": Out(1), "rate": Out(HyperLayout), "beta1": Out(16), "beta2": Out(16),
            "done": In(1), "o": In(RateLayout),
        })  # fmt: skip


class UpdateAdam(wiring.Component):
    """Takes groups apart, one weight a cycle with a second moment of ``s``, and puts the results together again.

    ``task`` (with dry's rule applied) and ``rate`` stand still meanwhile, and have for ``AdamScale.LATENCY`` cycles
    before the first weight. ``AdamLane.LATENCY`` cycles later: ``valid`` with the group ``o``, without its mask, in the
    cycle of its last weight; for each weight ``s_valid`` with the new second moment ``o_s``, and ``s_last`` with a
    chunk's last; magnitudes of weight, moments and root, else 0; how many of its results were cut. Nothing comes out
    that was taken before a reset.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "task": In(UpdateLayout(config)), "rate": In(RateLayout),
            "groups": In(stream.Signature(GroupLayout(config))), "s": In(stream.Signature(8 * MOMENT_BYTES)),
            "valid": Out(1), "o": Out(GroupLayout(config)),
            "s_valid": Out(1), "o_s": Out(8 * MOMENT_BYTES), "s_last": Out(1),
            "w_magnitude": Out(ROUNDED_WIDTH), "m_magnitude": Out(ROUNDED_WIDTH),
            "s_magnitude": Out(ROUNDED_WIDTH // 2), "saturations": Out(range(4)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        lanes = self._config.update_lanes
        group = self.groups.p
        place = Signal(range(lanes))
        m.submodules.lane = lane = AdamLane(self._config)
        m.submodules.scale = scale = AdamScale()
        taken, end = self.s.valid & self.s.ready, Signal()
        m.d.comb += [
            end.eq(~Array([*group.mask[1:], 0])[place]),
            self.groups.ready.eq(self.s.valid & end), self.s.ready.eq(self.groups.valid),
            lane.scale.eq(scale.o), lane.s.eq(self.s.payload),
            *(port.eq(values[place]) for port, values in (
                (lane.g, group.g), (lane.hi, group.hi), (lane.lo, group.lo), (lane.m, group.v),
            )),
        ]  # fmt: skip
        with m.If(taken):
            m.d.sync += place.eq(Mux(end, 0, place + 1))
        self._scale(m, scale)
        self._results(m, lane, taken, end, place)
        return m

    def _scale(self, m, scale):
        task, exponents = self.task, scale.exponents
        entries = ((task.ml, task.xl), (task.mm, task.xm), (task.md, task.xd))
        m.d.comb += [
            scale.rate.eq(self.rate),
            *(exponents[name].eq(task[name]) for name in ("eg", "ew", "ew_next")),
            exponents.em.eq(task.ev), exponents.em_next.eq(task.ev_next),
            exponents.es.eq(task.ed), exponents.es_next.eq(task.ed_next),
            scale.hyper.eq(Cat(*(Cat(entry) for entry in entries), task.more)),
        ]  # fmt: skip

    def _results(self, m, lane, taken, end, place):
        """What comes out of the lane, with what was known of it when it went in."""
        known = data.StructLayout({"valid": 1, "end": 1, "last": 1, "final": 1, "place": place.shape()})
        m.submodules.line = line = DelayLine(known, AdamLane.LATENCY)
        left = Signal(range(AdamLane.LATENCY + 2), init=AdamLane.LATENCY + 1)  # cycles with what was there at the reset
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        m.d.comb += [
            line.i.valid.eq(taken), line.i.end.eq(end), line.i.place.eq(place),
            line.i.last.eq(end & self.groups.p.last), line.i.final.eq(end & self.groups.p.final),
            self.s_valid.eq(line.o.valid & (left == 0)), self.valid.eq(self.s_valid & line.o.end),
            self.s_last.eq(line.o.last), self.o.last.eq(line.o.last), self.o.final.eq(line.o.final),
            self.o_s.eq(lane.o_s),
            *(magnitude.eq(Mux(self.s_valid, value, 0)) for magnitude, value in (
                (self.w_magnitude, lane.w_magnitude), (self.m_magnitude, lane.m_magnitude),
                (self.s_magnitude, lane.s_magnitude),
            )),
            self.saturations.eq(
                Mux(self.s_valid, lane.w_saturated + lane.m_saturated + lane.s_saturated, 0)
            ),
        ]  # fmt: skip
        for n in range(self._config.update_lanes):
            for name, value in (("hi", lane.o_hi), ("lo", lane.o_lo), ("v", lane.o_m)):
                held = Signal.like(value, name=f"held_{name}{n}", reset_less=True)
                with m.If(line.o.place == n):
                    m.d.sync += held.eq(value)
                m.d.comb += self.o[name][n].eq(Mux(line.o.place > n, held, value))
