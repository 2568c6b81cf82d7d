"""Batch norm's values: operands times factors plus an offset, each lane's own."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.norm import APPLY_PLANES, BACKWARD_ROW, planes
from ...spec.numerics import SHIFT_MAX, SHIFT_MIN
from ..lib.interfaces import DrainVector, OperandVector
from ..lib.multiplier import Multiplier
from ..lib.skid import Skid
from .layouts import clamped, number

__all__ = ["Scale", "ScaleLayout"]

ScaleLayout = data.StructLayout({"exponent": signed(11), "pairs": 1})
"""A job: exponent of the results, counted from that of ``a``; with ``pairs`` a result takes a vector of ``b`` too."""

_FACTOR_WIDTH = 17
_STAGES = 2 + Multiplier.LATENCY
"""Cycles from a vector to its result."""


class Scale(wiring.Component):
    """Makes p * g + (q * x << q_shift) + r of vectors g of ``a`` and x of ``b``; without ``pairs``, p * g + r.

    For each group of channels, vectors of ``b`` bring the constants: planes of a backward row, or without ``pairs`` the
    last ones of it, which are those of a forward row. Then come the group's vectors of ``a``, and of ``b``.

    Members
    -------
    job : In(stream.Signature(ScaleLayout))
        the jobs
    a, b : In(stream.Signature(OperandVector(config)))
        values; planes and values
    o : Out(stream.Signature(DrainVector(config)))
        the results, with their shifts
    busy : Out(1)
        until a job's last result has gone

    Timing
    ------
    A result a cycle, as long as results leave. Planes take a cycle each. With ``pairs`` they come between two groups;
    without, the next group's come while the group's values pass, once its first value has reached the last stage.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "job": In(stream.Signature(ScaleLayout)),
            "a": In(stream.Signature(OperandVector(config))), "b": In(stream.Signature(OperandVector(config))),
            "o": Out(stream.Signature(DrainVector(config))), "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        job = Signal(ScaleLayout)
        m.submodules.skid = skid = Skid(self.o.payload.shape())
        wiring.connect(m, skid.o, wiring.flipped(self.o))
        step, taken, loaded = (Signal(name=name) for name in ("step", "taken", "loaded"))
        first = Signal()  # the next value is its group's first
        stages = [Signal(data.StructLayout({"valid": 1, "first": 1}), name="s0")]
        m.d.comb += [step.eq(skid.i.ready), stages[0].valid.eq(taken), stages[0].first.eq(taken & first)]
        for stage in range(1, _STAGES + 1):
            stages.append(Signal.like(stages[0], name=f"s{stage}"))
            with m.If(step):
                m.d.sync += stages[stage].eq(stages[stage - 1])
        m.d.comb += skid.i.valid.eq(stages[-1].valid)
        self._control(m, job, step, taken, loaded, first, stages)
        for lane in range(config.rows):
            self._lane(m, lane, job, step, loaded, stages, skid.i.payload)
        return m

    def _control(self, m, job, step, taken, loaded, first, stages):
        """Take the constants of a group while there is room for them, and its values once they are there."""
        # Constants are there; are still read; were the last ones.
        ready, held, complete = (Signal(name=name) for name in ("ready", "held", "complete"))
        left = Signal(range(planes(BACKWARD_ROW)))
        values, loads, goes = (Signal(name=name) for name in ("values", "loads", "goes"))
        a, b = self.a, self.b
        m.d.comb += [
            loads.eq(values & ~ready & ~held & ~complete & (first | ~job.pairs)), loaded.eq(loads & b.valid),
            goes.eq(values & step & (ready | ~first)), taken.eq(goes & a.valid & (b.valid | ~job.pairs)),
            a.ready.eq(goes & (b.valid | ~job.pairs)), b.ready.eq(loads | (goes & a.valid & job.pairs)),
        ]  # fmt: skip
        starts = self.job.valid & self.job.ready
        again = Mux(starts, self.job.payload.pairs, job.pairs)
        with m.If(starts | (loaded & (left == 0))):
            m.d.sync += left.eq(Mux(again, planes(BACKWARD_ROW) - 1, APPLY_PLANES - 1))
        with m.Elif(loaded):
            m.d.sync += left.eq(left - 1)
        with m.If(loaded):
            m.d.sync += [ready.eq(left == 0), complete.eq(b.payload.end_walk)]
        with m.If(taken):
            m.d.sync += first.eq(a.payload.end_pass)
        with m.If(stages[0].first):
            m.d.sync += [ready.eq(0), held.eq(1)]
        with m.If(step & stages[-2].first):
            m.d.sync += held.eq(0)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.job.ready.eq(~self.o.valid)
                m.d.sync += [job.eq(self.job.payload), first.eq(1), complete.eq(0)]
                with m.If(starts):
                    m.next = "VALUES"
            with m.State("VALUES"):
                m.d.comb += values.eq(1)
                with m.If(taken & a.payload.end_walk):
                    m.next = "LEAVE"
            with m.State("LEAVE"), m.If(~Cat(stage.valid for stage in stages[1:]).any()):
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE") | self.o.valid)

    def _lane(self, m, lane, job, step, loaded, stages, result):
        """One lane: its constants, its products and their sum.

        Each constant goes with the group's first value to the stage that uses it.
        """
        config = self._config
        row = data.ArrayLayout(config.operand_width, planes(BACKWARD_ROW))
        digits = Signal(row, name=f"digits{lane}", reset_less=True)
        with m.If(loaded):
            m.d.sync += digits.eq(Cat(digits.as_value()[config.operand_width :], self.b.payload.data[lane]))
        p, q, r, places, exponent = (number(digits, BACKWARD_ROW, name) for name in (
            "p", "q", "r", "q_shift", "p_exponent"
        ))  # fmt: skip
        products = []
        for name, operand, factor in (("p", self.a, p), ("q", self.b, q)):
            m.submodules[f"multiplier_{name}{lane}"] = multiplier = Multiplier(_FACTOR_WIDTH)
            m.d.comb += [
                multiplier.a.eq(operand.payload.data[lane]), multiplier.b.eq(factor),
                multiplier.en.eq(step), multiplier.b_en.eq(stages[0].first),
            ]  # fmt: skip
            products.append(multiplier.o)

        def register(name, shape):
            return Signal(shape, name=f"{name}{lane}", reset_less=True)

        offset, left = register("offset", signed(config.acc_width)), register("left", 4)
        sum_, moved, value = (register(name, signed(config.acc_width)) for name in ("sum", "moved", "value"))
        shift = register("shift", range(SHIFT_MIN, SHIFT_MAX + 1))
        with m.If(step & stages[Multiplier.LATENCY - 1].first):
            m.d.sync += [offset.eq(r), left.eq(places)]
        with m.If(step):
            m.d.sync += [
                sum_.eq(products[0] + offset), moved.eq(Mux(job.pairs, products[1] << left, 0)),
                value.eq(sum_ + moved),
            ]  # fmt: skip
        with m.If(step & stages[-2].first):
            m.d.sync += shift.eq(clamped(job.exponent - exponent))
        m.d.comb += [result.sums[lane].eq(value), result.shift[lane].eq(shift)]
