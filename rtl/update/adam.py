"""ADAM commands in the update unit: one weight after the other through the only Adam lane."""

from amaranth import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.interfaces import HyperLayout, UpdateLayout
from .adam_factors import AdamScale
from .adam_lane import MAGNITUDE_WIDTH, AdamLane, FactorLayout
from .adam_rate import RateLayout
from .arrays import MOMENT_BYTES, GroupLayout
from .sgd_lane import ALIGN_WIDTH

__all__ = ["RateClient", "UpdateAdam"]


class RateClient(wiring.Signature):
    """Use of an :class:`.adam_rate.AdamRate`, seen from its user.

    Members
    -------
    start, dry, rate, beta1, beta2, done, o : Out, Out, Out, Out, Out, In, In
        as ports of :class:`.adam_rate.AdamRate`
    """

    def __init__(self):
        super().__init__({
            "start": Out(1), "dry": Out(1), "rate": Out(HyperLayout), "beta1": Out(16), "beta2": Out(16),
            "done": In(1), "o": In(RateLayout),
        })  # fmt: skip


class UpdateAdam(wiring.Component):
    """Splits groups into weights for the Adam lane, and joins its results to groups.

    Nothing comes out that was taken before a reset.

    Parameters
    ----------
    config : Config
        decides how many weights a group has
    borrows : bool
        see :class:`.adam_lane.AdamLane`

    Members
    -------
    task, rate : In
        the command (with the rule for dry ones applied) and its learning rate; stand still meanwhile
    groups : In(stream.Signature(GroupLayout(config)))
        the groups
    s : In(stream.Signature(8 * MOMENT_BYTES))
        second moments, one for each weight
    valid, o : Out
        a new group, without its mask, in the cycle of its last weight
    s_valid, o_s, s_last : Out
        a weight's new second moment; a chunk's last one
    w_magnitude, m_magnitude, s_magnitude : Out
        magnitudes of weight, moment and root, else 0
    saturated : Out(1)
        one of them was cut
    asks, aligned : Out(FactorLayout), In(signed(ALIGN_WIDTH))
        see :class:`.adam_lane.AdamLane`; only with ``borrows``

    Timing
    ------
    A weight every ``FOLD`` cycles; a group follows ``AdamLane.LATENCY`` cycles after the first cycle of its last
    weight.
    """

    def __init__(self, config: Config, borrows: bool = False):
        self._config, self._borrows = config, borrows
        super().__init__({
            "task": In(UpdateLayout(config)), "rate": In(RateLayout),
            "groups": In(stream.Signature(GroupLayout(config))), "s": In(stream.Signature(8 * MOMENT_BYTES)),
            "valid": Out(1), "o": Out(GroupLayout(config)),
            "s_valid": Out(1), "o_s": Out(8 * MOMENT_BYTES), "s_last": Out(1),
            "w_magnitude": Out(MAGNITUDE_WIDTH), "m_magnitude": Out(MAGNITUDE_WIDTH),
            "s_magnitude": Out((MAGNITUDE_WIDTH + 1) // 2), "saturated": Out(1),
            **({"asks": Out(FactorLayout), "aligned": In(signed(ALIGN_WIDTH))} if borrows else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        lanes = self._config.update_lanes
        group = self.groups.p
        place = Signal(range(lanes))
        m.submodules.lane = lane = AdamLane(self._config, self._borrows)
        if self._borrows:
            m.d.comb += [self.asks.eq(lane.asks), lane.aligned.eq(self.aligned)]
        m.submodules.scale = scale = AdamScale()
        end = Signal()  # settles by a weight's second cycle, is used in its last
        m.d.sync += end.eq(~Array([*group.mask[1:], 0])[place])
        m.d.comb += [
            lane.valid.eq(self.groups.valid & self.s.valid),
            self.groups.ready.eq(lane.ready & end), self.s.ready.eq(lane.ready),
            lane.tag.end.eq(end), lane.tag.last.eq(end & group.last), lane.tag.final.eq(end & group.final),
            lane.tag.place.eq(place), lane.scale.eq(scale.o), scale.term.eq(lane.term), lane.s.eq(self.s.payload),
            *(port.eq(values[place]) for port, values in (
                (lane.g, group.g), (lane.hi, group.hi), (lane.lo, group.lo), (lane.m, group.v),
            )),
        ]  # fmt: skip
        with m.If(lane.ready):
            m.d.sync += place.eq(Mux(end, 0, place + 1))
        self._scale(m, scale)
        self._results(m, lane)
        return m

    def _scale(self, m, scale):
        """Connect the command to the unit that makes factors and shifts."""
        task, exponents = self.task, scale.exponents
        entries = ((task.ml, task.xl), (task.mm, task.xm), (task.md, task.xd))
        m.d.comb += [
            scale.rate.eq(self.rate),
            *(exponents[name].eq(task[name]) for name in ("eg", "ew", "ew_next")),
            exponents.em.eq(task.ev), exponents.em_next.eq(task.ev_next),
            exponents.es.eq(task.ed), exponents.es_next.eq(task.ed_next),
            scale.hyper.eq(Cat(*(Cat(entry) for entry in entries), task.more)),
        ]  # fmt: skip

    def _results(self, m, lane):
        """Join the lane's results to groups, and report magnitudes."""
        tag, squared = lane.w_tag, lane.magnitude
        m.d.comb += [
            self.s_valid.eq(lane.s_valid), self.s_last.eq(lane.s_tag.last), self.o_s.eq(lane.o_s),
            self.valid.eq(lane.w_valid & tag.end), self.o.last.eq(tag.last), self.o.final.eq(tag.final),
            self.w_magnitude.eq(Mux(lane.w_valid, lane.magnitude, 0)),
            self.m_magnitude.eq(Mux(lane.m_valid, lane.magnitude, 0)),
            self.s_magnitude.eq(
                Mux(lane.s_valid, Cat(squared[n : n + 2].any() for n in range(0, len(squared), 2)), 0)
            ),
            self.saturated.eq((lane.m_valid | lane.s_valid | lane.w_valid) & lane.saturated),
        ]  # fmt: skip
        for n in range(self._config.update_lanes):
            for name, value in (("hi", lane.o_hi), ("lo", lane.o_lo), ("v", lane.o_m)):
                held = Signal.like(value, name=f"held_{name}{n}", reset_less=True)
                with m.If(lane.w_valid & (tag.place == n)):
                    m.d.sync += held.eq(value)
                m.d.comb += self.o[name][n].eq(Mux(tag.place > n, held, value))
