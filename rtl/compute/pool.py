"""The pool unit: reduces the taps of a window, lane by lane."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.descriptors import VectorMode
from ..lib.interfaces import VectorLayout
from ..lib.multiplier import Multiplier
from ..lib.odometer import COUNT_BITS
from .im2col import OperandVector

__all__ = ["Pool", "PoolLayout"]

PoolLayout = data.StructLayout({"mode": 2, "n_taps": COUNT_BITS, "mantissa": 16})
"""A job of the pool unit; MAX and SELECT expect mantissa 1."""


class Pool(wiring.Component):
    """Reduces every ``n_taps`` vectors of ``a`` to one vector (MAX: and its index vector).

    SUM gives the mantissa times the sum. MAX gives the maximum, of equal ones the first, then 1 + the number of its
    tap. SELECT gives the sum of those lanes whose lane of ``b`` is the tap's number, counted from n_taps down to 1.

    Members
    -------
    job : In(stream.Signature(PoolLayout))
        the jobs
    a, b : In(stream.Signature(OperandVector(config)))
        vectors of taps; SELECT takes both
    o : Out(stream.Signature(VectorLayout(config)))
        the results
    busy : Out(1)
        until a job's last result has gone

    Timing
    ------
    A tap a cycle, as long as results leave as fast: a result takes two cycles, MAX's three.
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
        countdown = Signal(COUNT_BITS)
        first, last, single = Signal(), Signal(), Signal()  # the tap is its window's first, last, only one
        s1, s2, s3 = (Signal(data.StructLayout({
            "valid": 1, "first": 1, "last": 1, "end": 1, "missed": config.rows,
        }), name=f"s{stage}") for stage in (1, 2, 3))  # fmt: skip
        step, taken = Signal(init=1), Signal()
        may = Signal(init=1, reset_less=True)  # a copy of ``step`` for the operands, as each has many loads
        lanes = range(config.rows)
        value = [Signal(signed(config.acc_width), name=f"value{i}", reset_less=True) for i in lanes]
        index = [Signal(COUNT_BITS, name=f"index{i}", reset_less=True) for i in lanes]
        done = Signal(data.StructLayout({"valid": 1, "end": 1}))  # a window is finished; it is the job's last

        m.d.comb += [
            self.job.ready.eq(~self.busy),
            taken.eq(taking & may & self.a.valid & (self.b.valid | ~selects)),
            self.a.ready.eq(taken), self.b.ready.eq(taken & selects),
        ]  # fmt: skip
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [
                self.busy.eq(1), taking.eq(1), job.eq(self.job.payload), countdown.eq(self.job.payload.n_taps),
                is_max.eq(self.job.payload.mode == VectorMode.MAX),
                selects.eq(self.job.payload.mode == VectorMode.SELECT),
                first.eq(1), last.eq(self.job.payload.n_taps == 1), single.eq(self.job.payload.n_taps == 1),
            ]  # fmt: skip
        with m.If(taken):
            m.d.sync += [
                countdown.eq(countdown - 1), taking.eq(~self.a.payload.end_walk),
                first.eq(last), last.eq(countdown == 2),
            ]  # fmt: skip
            with m.If(last):
                m.d.sync += [countdown.eq(job.n_taps), last.eq(single)]
        number = Signal(COUNT_BITS)  # number of the third stage's tap
        with m.If(step):
            m.d.sync += [
                s1.valid.eq(taken), s1.first.eq(first), s1.last.eq(last), s1.end.eq(self.a.payload.end_walk),
                *(s1.missed[lane].eq(selects & (self.b.payload.data[lane] != countdown)) for lane in lanes),
                s2.eq(s1), s3.eq(s2), s3.last.eq(s2.valid & s2.last), done.valid.eq(s3.last), done.end.eq(s3.end),
            ]  # fmt: skip
            with m.If(s2.valid):
                m.d.sync += number.eq(Mux(s2.first, 1, number + 1))
        width = max(config.operand_width, PoolLayout["mantissa"].width + 1)
        for lane in lanes:
            m.submodules[f"multiplier{lane}"] = multiplier = Multiplier(width)
            m.d.comb += [
                multiplier.a.eq(self.a.payload.data[lane]), multiplier.b.eq(job.mantissa), multiplier.b_en.eq(1),
                multiplier.en.eq(step),
            ]  # fmt: skip
            self._reduce(m, lane, step, is_max, s2, multiplier.o, number, value[lane], index[lane])
        self._give(m, step, may, s3.last, done, is_max, value, index)
        return m

    def _reduce(self, m, lane, step, is_max, tap, scaled, number, value, index):
        """Join one lane's tap, from the second stage, to its sum or maximum in the third.

        The tap is compared a cycle before, with the maximum and with the tap ahead, which may become the maximum
        meanwhile.
        """
        operand = self.config.operand_width
        s3_scaled = Signal(signed(operand + PoolLayout["mantissa"].width + 1), name=f"scaled{lane}", reset_less=True)
        fresh, beats_value, beats_ahead, took, takes = (
            Signal(name=f"{name}{lane}") for name in ("fresh", "beats_value", "beats_ahead", "took", "takes")
        )  # fmt: skip
        challenger = scaled[:operand].as_signed()

        def beats(other):  # the sign of a difference comes straight out of its carry chain
            return (other[:operand].as_signed() - challenger)[-1]

        always = ~is_max | tap.first
        m.d.comb += takes.eq(Mux(took, beats_ahead, beats_value))
        with m.If(step):
            m.d.sync += [
                s3_scaled.eq(Mux(tap.missed[lane], 0, scaled)), fresh.eq(is_max | tap.first), took.eq(takes),
                beats_value.eq(tap.valid & (always | beats(value))),
                beats_ahead.eq(tap.valid & (always | beats(s3_scaled))),
            ]  # fmt: skip
            with m.If(takes):
                m.d.sync += [value.eq(Mux(fresh, 0, value) + s3_scaled), index.eq(number)]

    def _give(self, m, step, may, finishes, done, is_max, value, index):
        """Move a finished window into result registers, and give it from there, before its indices if any.

        It leaves while the next window is reduced. When that one is ``done`` too, everything waits (``step`` is low).
        """
        takes, index_next, final = Signal(), Signal(), Signal()
        m.d.comb += takes.eq(done.valid & ~self.o.valid)
        moves = Mux(step, ~(finishes & (done.valid | self.o.valid)), ~self.o.valid)
        m.d.sync += [step.eq(moves), may.eq(moves)]
        with m.If(takes):
            m.d.sync += [self.o.valid.eq(1), index_next.eq(is_max), final.eq(done.end)]
        with m.Elif(self.o.ready & index_next):
            m.d.sync += index_next.eq(0)
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += [self.o.valid.eq(0), self.busy.eq(~final)]
        for lane in range(self.config.rows):
            result = Signal(signed(self.config.acc_width), name=f"result{lane}", reset_less=True)
            second = Signal(COUNT_BITS, name=f"second{lane}", reset_less=True)
            m.d.comb += self.o.payload[lane].eq(result)
            with m.If(~self.o.valid):
                m.d.sync += [result.eq(value[lane]), second.eq(index[lane])]
            with m.Elif(self.o.ready):
                m.d.sync += result.eq(second)
