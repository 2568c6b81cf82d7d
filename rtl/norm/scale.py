"""Batch norm's values: operands times factors plus an offset, each lane's own."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.norm import BACKWARD_ROW, planes
from ...spec.numerics import SHIFT_MAX, SHIFT_MIN
from ..lib.interfaces import DrainVector, OperandVector
from ..lib.multiplier import Multiplier
from ..lib.skid import Skid
from .layouts import clamped, number

__all__ = ["Scale", "ScaleLayout"]

ScaleLayout = data.StructLayout({"exponent": signed(11), "pairs": 1})
"""A job: exponent of the results, counted from that of ``a``; with ``pairs`` a result takes two vectors."""

_FACTOR_WIDTH = 17
_STAGES = 2 + Multiplier.LATENCY
"""Cycles from a vector to its result."""


class Scale(wiring.Component):
    """Makes p * g + (q * x << q_shift) + r of each pair of vectors g and x; of a single vector g, p * g + r.

    For each group of channels, vectors of ``b`` bring the constants: planes of a backward row, or the last ones of it,
    which are those of a forward row. Then come the group's vectors of ``a``.

    Members
    -------
    job : In(stream.Signature(ScaleLayout))
        the jobs
    a, b : In(stream.Signature(OperandVector(config)))
        values and planes
    o : Out(stream.Signature(DrainVector(config)))
        the results, with their shifts
    busy : Out(1)
        until a job's last result has gone

    Timing
    ------
    A vector a cycle within a group, as long as results leave.
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
        step, taken, loaded = Signal(), Signal(), Signal()
        stages = [Signal(data.StructLayout({"valid": 1, "second": 1, "last": 1}), name="s0")]
        second = Signal()  # the next vector is its pair's second
        m.d.comb += [
            step.eq(skid.i.ready), stages[0].valid.eq(taken), stages[0].second.eq(second),
            stages[0].last.eq(~job.pairs | second),
        ]  # fmt: skip
        for stage in range(1, _STAGES + 1):
            stages.append(Signal.like(stages[0], name=f"s{stage}"))
            with m.If(step):
                m.d.sync += stages[stage].eq(stages[stage - 1])
        m.d.comb += skid.i.valid.eq(stages[-1].valid & stages[-1].last)
        with m.If(taken):
            m.d.sync += second.eq(job.pairs & ~second)
        self._control(m, job, step, taken, loaded, Cat(stage.valid for stage in stages[1:]).any())
        for lane in range(config.rows):
            self._lane(m, lane, job, step, loaded, second, stages, skid.i.payload)
        return m

    def _control(self, m, job, step, taken, loaded, flying):
        """Take a group's constants, then its values; wait until they have left."""
        ended = Signal()  # no group is left
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.job.ready.eq(~self.o.valid)
                m.d.sync += job.eq(self.job.payload)
                with m.If(self.job.valid & self.job.ready):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += [self.b.ready.eq(1), loaded.eq(self.b.valid)]
                with m.If(self.b.valid & self.b.payload.end_pass):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += [self.a.ready.eq(step), taken.eq(step & self.a.valid)]
                m.d.sync += ended.eq(self.a.payload.end_walk)
                with m.If(taken & self.a.payload.end_pass):
                    m.next = "LEAVE"
            with m.State("LEAVE"), m.If(~flying):
                m.next = "LOAD"
                with m.If(ended):
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE") | self.o.valid)

    def _lane(self, m, lane, job, step, loaded, second, stages, result):
        """One lane: its constants, its products and their sum."""
        config = self._config
        row = data.ArrayLayout(config.operand_width, planes(BACKWARD_ROW))
        digits = Signal(row, name=f"digits{lane}", reset_less=True)
        with m.If(loaded):
            m.d.sync += digits.eq(Cat(digits.as_value()[config.operand_width :], self.b.payload.data[lane]))
        p, q, r, places, exponent = (number(digits, BACKWARD_ROW, name) for name in (
            "p", "q", "r", "q_shift", "p_exponent"
        ))  # fmt: skip
        m.submodules[f"multiplier{lane}"] = multiplier = Multiplier(_FACTOR_WIDTH)
        m.d.comb += [
            multiplier.a.eq(self.a.payload.data[lane]), multiplier.b.eq(Mux(second, q, p)),
            multiplier.en.eq(step), multiplier.b_en.eq(step),
        ]  # fmt: skip
        moved = Signal(signed(config.acc_width), name=f"moved{lane}", reset_less=True)
        value = Signal(signed(config.acc_width), name=f"value{lane}", reset_less=True)
        shift = Signal(range(SHIFT_MIN, SHIFT_MAX + 1), name=f"shift{lane}", reset_less=True)
        multiplied, added = stages[Multiplier.LATENCY], stages[Multiplier.LATENCY + 1]
        with m.If(step):
            m.d.sync += moved.eq(multiplier.o << Mux(multiplied.second, places[:4], 0))
            with m.If(added.valid):
                m.d.sync += value.eq(Mux(added.second, value, r) + moved)
        m.d.sync += shift.eq(clamped(job.exponent - exponent))
        m.d.comb += [result.sums[lane].eq(value), result.shift[lane].eq(shift)]
