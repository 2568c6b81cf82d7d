"""The pool unit: reduces the taps of a window, lane by lane."""

from amaranth import Module, Mux, Signal, signed
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

    One tap per cycle, while results go as fast: one takes two cycles, MAX' three. ``busy`` until a job's last has gone.
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
        first, last, single = Signal(), Signal(), Signal()  # the tap's place in its window; whether there is but one
        s1 = Signal(data.StructLayout({
            "valid": 1, "first": 1, "last": 1, "end": 1, "number": COUNT_BITS, "missed": config.rows,
        }))  # fmt: skip
        step, taken = Signal(), Signal()
        lanes = range(config.rows)
        product = signed(config.operand_width + PoolLayout["mantissa"].width + 1)
        scaled = [Signal(product, name=f"scaled{i}", reset_less=True) for i in lanes]
        value = [Signal(signed(config.acc_width), name=f"value{i}", reset_less=True) for i in lanes]
        index = [Signal(COUNT_BITS, name=f"index{i}", reset_less=True) for i in lanes]
        done = Signal(data.StructLayout({"valid": 1, "end": 1}))  # a window is finished; it is the job's last

        m.d.comb += [
            is_max.eq(job.mode == VectorMode.MAX), selects.eq(job.mode == VectorMode.SELECT),
            self.job.ready.eq(~self.busy),
            # A finished window's result goes while the next one is reduced; nothing moves when that is finished too.
            step.eq(~(done.valid & self.o.valid)),
            taken.eq(taking & step & self.a.valid & (self.b.valid | ~selects)),
            self.a.ready.eq(taken), self.b.ready.eq(taken & selects),
        ]  # fmt: skip
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [
                self.busy.eq(1), taking.eq(1), job.eq(self.job.payload),
                tap.eq(1), countdown.eq(self.job.payload.n_taps),
                first.eq(1), last.eq(self.job.payload.n_taps == 1), single.eq(self.job.payload.n_taps == 1),
            ]  # fmt: skip
        with m.If(taken):
            m.d.sync += [
                tap.eq(tap + 1), countdown.eq(countdown - 1), taking.eq(~self.a.payload.end_walk),
                first.eq(last), last.eq(countdown == 2),
            ]  # fmt: skip
            with m.If(last):
                m.d.sync += [tap.eq(1), countdown.eq(job.n_taps), last.eq(single)]
        with m.If(step):
            m.d.sync += [
                s1.valid.eq(taken), s1.first.eq(first), s1.last.eq(last), s1.number.eq(tap),
                s1.end.eq(self.a.payload.end_walk),
                *(s1.missed[lane].eq(selects & (self.b.payload.data[lane] != countdown)) for lane in lanes),
                done.valid.eq(s1.valid & s1.last), done.end.eq(s1.end),
            ]  # fmt: skip
        for lane in lanes:
            with m.If(step):
                m.d.sync += scaled[lane].eq(self.a.payload.data[lane] * job.mantissa)
            with m.If(step & s1.valid):
                self._reduce(m, is_max, s1, s1.missed[lane], scaled[lane], value[lane], index[lane])
        self._give(m, done, is_max, value, index)
        return m

    def _give(self, m, done, is_max, value, index):
        """A finished window is taken over by registers of its own, from which it goes, before its indices if any."""
        takes, index_next, final = Signal(), Signal(), Signal()
        m.d.comb += takes.eq(done.valid & ~self.o.valid)
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
            with m.If(takes):
                m.d.sync += [result.eq(value[lane]), second.eq(index[lane])]
            with m.Elif(self.o.ready):
                m.d.sync += result.eq(second)

    def _reduce(self, m, is_max, tap, missed, scaled, value, index):
        """One lane's next tap joins its sum or maximum."""
        operand = self.config.operand_width
        better = tap.first | (scaled[:operand].as_signed() > value[:operand].as_signed())
        with m.If(~is_max):
            m.d.sync += value.eq(Mux(tap.first, 0, value) + Mux(missed, 0, scaled))
        with m.Elif(better):
            m.d.sync += [value.eq(scaled), index.eq(tap.number)]
