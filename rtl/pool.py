"""The pool unit: reduces the taps of a window, lane by lane."""

from amaranth import Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from ..spec.descriptors import VectorMode
from .im2col import OperandVector
from .interfaces import VectorLayout
from .odometer import COUNT_BITS

__all__ = ["Pool", "PoolLayout"]

PoolLayout = data.StructLayout({"mode": 2, "n_taps": COUNT_BITS, "mantissa": 16})
"""How to reduce: MAX and SELECT expect mantissa 1."""


class Pool(wiring.Component):
    """Reduces every ``n_taps`` vectors of ``a`` to one vector (MAX: and its index vector).

    SUM: mantissa times the sum. MAX: the maximum, of equal ones the first, then 1 + its tap's number.
    SELECT: the sum of those lanes whose lane of ``b`` is the tap's number counted from n_taps down to 1.

    One tap per cycle; ``busy`` until a job's last result has gone.
    """

    def __init__(self, config: Config):
        super().__init__({
            "job": In(stream.Signature(PoolLayout)),
            "a": In(stream.Signature(OperandVector(config))), "b": In(stream.Signature(OperandVector(config))),
            "o": Out(stream.Signature(VectorLayout(config))), "busy": Out(1),
        })  # fmt: skip
        self.config = config

    def elaborate(self, platform):
        m = Module()
        config = self.config
        job = Signal(PoolLayout)
        is_max, selects, taking = Signal(), Signal(), Signal()
        tap, countdown = Signal(COUNT_BITS), Signal(COUNT_BITS)
        s1 = Signal(data.StructLayout({"valid": 1, "first": 1, "last": 1, "end": 1, "number": COUNT_BITS}))
        step, taken = Signal(), Signal()
        value = Signal(VectorLayout(config), reset_less=True)
        index = Signal(data.ArrayLayout(COUNT_BITS, config.rows), reset_less=True)
        done, index_next, final = Signal(), Signal(), Signal()

        m.d.comb += [
            is_max.eq(job.mode == VectorMode.MAX), selects.eq(job.mode == VectorMode.SELECT),
            self.job.ready.eq(~self.busy),
            # A finished window stays in ``value`` until it has gone; meanwhile nothing moves.
            self.o.valid.eq(done), step.eq(~done | (self.o.ready & ~index_next)),
            taken.eq(taking & step & self.a.valid & (self.b.valid | ~selects)),
            self.a.ready.eq(taken), self.b.ready.eq(taken & selects), self.o.payload.eq(value),
        ]  # fmt: skip
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [
                self.busy.eq(1), taking.eq(1), job.eq(self.job.payload),
                tap.eq(1), countdown.eq(self.job.payload.n_taps),
            ]  # fmt: skip
        with m.If(taken):
            m.d.sync += [tap.eq(tap + 1), countdown.eq(countdown - 1), taking.eq(~self.a.payload.end_walk)]
            with m.If(countdown == 1):
                m.d.sync += [tap.eq(1), countdown.eq(job.n_taps)]
        with m.If(step):
            m.d.sync += [
                s1.valid.eq(taken), s1.first.eq(tap == 1), s1.last.eq(countdown == 1), s1.number.eq(tap),
                s1.end.eq(self.a.payload.end_walk),
                done.eq(s1.valid & s1.last), index_next.eq(is_max), final.eq(s1.end),
            ]  # fmt: skip
        with m.Elif(self.o.ready):  # the value vector has gone, its index vector follows
            m.d.sync += index_next.eq(0)
            for lane in range(config.rows):
                m.d.sync += value[lane].eq(index[lane])
        with m.If(done & step & final):
            m.d.sync += self.busy.eq(0)

        for lane in range(config.rows):
            scaled = Signal(signed(config.operand_width + 17), name=f"scaled{lane}", reset_less=True)
            better = Signal(name=f"better{lane}")
            x = self.a.payload.data[lane]
            m.d.comb += better.eq(
                s1.first
                | (scaled[: config.operand_width].as_signed() > value[lane][: config.operand_width].as_signed())
            )
            with m.If(step):
                m.d.sync += scaled.eq(x * job.mantissa)
                with m.If(selects & (self.b.payload.data[lane] != countdown)):
                    m.d.sync += scaled.eq(0)
            with m.If(step & s1.valid):
                with m.If(~is_max):
                    m.d.sync += value[lane].eq(scaled)
                    with m.If(~s1.first):
                        m.d.sync += value[lane].eq(value[lane] + scaled)
                with m.Elif(better):
                    m.d.sync += [value[lane].eq(scaled), index[lane].eq(s1.number)]
        return m
