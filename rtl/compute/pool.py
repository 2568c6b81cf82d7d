"""The pool unit: reduces the taps of a window, lane by lane."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.descriptors import VectorMode
from ...spec.norm import DIGIT_BITS, SUM_DIGITS
from ..lib.block_memory import BlockMemory
from ..lib.delay import delayed
from ..lib.interfaces import OperandVector, SignsLayout, VectorLayout
from ..lib.multiplier import Multiplier
from ..lib.odometer import COUNT_BITS
from ..lib.register_slice import RegisterSlice
from ..lib.skid import Skid
from .depthwise import Depthwise, WindowsLayout
from .dropout import DropLayout, Dropout
from .pool_job import PoolLayout, products

__all__ = ["Pool"]


class Pool(wiring.Component):
    """Reduces every ``n_taps`` vectors of ``a`` to one vector (MAX: and its index vector).

    SUM gives the mantissa times the sum. MAX gives the maximum, of equal ones the first, then 1 + the number of its
    tap. SELECT gives the sum of those lanes whose lane of ``b`` is the tap's number, counted from n_taps down to 1.
    DOT gives the sum of the lanes' products, with ``Config.depthwise``; :class:`.depthwise.Depthwise` does so for jobs
    with a ``width`` of windows. DIGITS gives the digits of that sum, then those of the sum of ``b``'s lanes, with
    ``Config.batch_norm``.

    Members
    -------
    job : In(stream.Signature(PoolLayout))
        the jobs
    windows : In(WindowsLayout(config))
        the windows of DOT, see :class:`.depthwise.Depthwise`; with ``Config.depthwise``
    drop, key : In(DropLayout), In(SignsLayout)
        results of the job that become 0, and the key of the draw, see :class:`.dropout.Dropout`; with
        ``Config.dropout``
    a, b : In(stream.Signature(OperandVector(config)))
        vectors of taps; SELECT and DOT take both
    o : Out(stream.Signature(VectorLayout(config)))
        the results
    busy : Out(1)
        until a job's last result has gone

    Timing
    ------
    A tap a cycle, as long as results leave as fast: a vector takes two cycles, with batch norm one. MAX has two
    vectors, DIGITS one a digit; one with dropout takes as long as its mask. A cycle without a tap follows each window
    of DIGITS.
    """

    def __init__(self, config: Config):
        super().__init__({
            "job": In(stream.Signature(PoolLayout)),
            "a": In(stream.Signature(OperandVector(config))), "b": In(stream.Signature(OperandVector(config))),
            "o": Out(stream.Signature(VectorLayout(config))), "busy": Out(1),
            **({"windows": In(WindowsLayout(config))} if config.convolves_channels else {}),
            **({"drop": In(DropLayout), "key": In(SignsLayout)} if config.drops else {}),
        })  # fmt: skip
        self.config = config

    def elaborate(self, platform):
        m = Module()
        config = self.config
        job = Signal(PoolLayout)
        is_max, selects, multiplies, taking = (Signal(name=n) for n in ("is_max", "selects", "multiplies", "taking"))
        working = Signal()  # until the job's last result has been given to ``skid``
        countdown = Signal(COUNT_BITS)
        first, last, single = Signal(), Signal(), Signal()  # the tap is its window's first, last, only one
        s1, s2, s3 = (Signal(data.StructLayout({
            "valid": 1, "first": 1, "last": 1, "end": 1, "missed": config.rows,
        }), name=f"s{stage}") for stage in (1, 2, 3))  # fmt: skip
        step, taken = Signal(init=1, name="step"), Signal(name="taken")
        digits = Signal()  # with batch norm
        gap = Signal()  # takes no tap: the cycle after the last one of a window of DIGITS
        lanes = range(config.rows)
        value = [Signal(signed(config.acc_width), name=f"value{i}", reset_less=True) for i in lanes]
        index = [Signal(COUNT_BITS, name=f"index{i}", reset_less=True) for i in lanes]
        totals = [Signal(signed(config.acc_width), name=f"total{i}", reset_less=True) for i in lanes]  # of ``b``
        done = Signal(data.StructLayout({"valid": 1, "end": 1}))  # a window is finished; it is the job's last
        goes = taking & step & ~gap if config.normalises else taking & step

        m.d.comb += [
            self.job.ready.eq(~self.busy),
            taken.eq(goes & self.a.valid & (self.b.valid | ~(selects | multiplies))),
            self.a.ready.eq(taken), self.b.ready.eq(taken & (selects | multiplies)),
        ]  # fmt: skip
        alone = ~self.windows.width.any() if config.convolves_channels else 1  # window after window
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += [
                working.eq(alone), taking.eq(alone), job.eq(self.job.payload), countdown.eq(self.job.payload.n_taps),
                is_max.eq(self.job.payload.mode == VectorMode.MAX),
                selects.eq(self.job.payload.mode == VectorMode.SELECT),
                multiplies.eq(self.job.payload.mode.matches(*products(config))),
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
        kept = self._keep(m, job, multiplies, digits, step, s1, s2, done, (value, totals))
        self._sum(m, digits, gap, step, taken & last, s3, kept, totals)
        for lane in lanes:
            scaled = self._scale(m, lane, job.mantissa, multiplies, step)
            self._reduce(m, lane, step, is_max, s2, scaled, number, value[lane], index[lane], kept[lane])
        self._give(m, step, s3.last, done, is_max, digits, job.keeps & multiplies, working, (value, index, totals))
        if config.convolves_channels:
            self._convolve(m)
        return m

    def _convolve(self, m):
        """Give jobs with a width of windows to a unit of their own, which has the kept sums and ``skid`` meanwhile."""
        m.submodules.depthwise = unit = Depthwise(self.config)
        sums, skid = m.submodules.sums, m.submodules.skid
        m.d.comb += [
            unit.job.valid.eq(self.job.valid & self.job.ready & self.windows.width.any()),
            unit.job.payload.eq(self.windows), unit.kept.eq(sums.r_data),
            unit.a.payload.eq(self.a.payload), unit.b.payload.eq(self.b.payload),
        ]  # fmt: skip
        with m.If(unit.busy):
            m.d.comb += [
                self.busy.eq(1), unit.a.valid.eq(self.a.valid), self.a.ready.eq(unit.a.ready),
                unit.b.valid.eq(self.b.valid), self.b.ready.eq(unit.b.ready),
                sums.r_en.eq(unit.r_en), sums.r_addr.eq(unit.r_addr), sums.w_en.eq(unit.w_en),
                sums.w_addr.eq(unit.w_addr), sums.w_data.eq(unit.o.payload),
                skid.i.valid.eq(unit.o.valid), skid.i.payload.eq(unit.o.payload), unit.o.ready.eq(skid.i.ready),
            ]  # fmt: skip

    def _scale(self, m, lane, mantissa, multiplies, step):
        """Multiply a lane's tap by the mantissa or ``b``'s lane; the product is there in stage 2."""
        width = max(self.config.operand_width, PoolLayout["mantissa"].width + 1)
        m.submodules[f"multiplier{lane}"] = multiplier = Multiplier(width)
        m.d.comb += [
            multiplier.a.eq(self.a.payload.data[lane]), multiplier.b_en.eq(Mux(multiplies, step, 1)),
            multiplier.en.eq(step), multiplier.b.eq(mantissa),
        ]  # fmt: skip
        with m.If(multiplies):
            m.d.comb += multiplier.b.eq(self.b.payload.data[lane])
        return multiplier.o

    def _reduce(self, m, lane, step, is_max, tap, scaled, number, value, index, kept):
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
                m.d.sync += [value.eq(Mux(fresh, kept, value) + s3_scaled), index.eq(number)]

    def _sum(self, m, digits, gap, step, ends, s3, kept, totals):
        """Add up the lanes of ``b`` for DIGITS, a stage after the products."""
        if not self.config.normalises:
            return
        s4 = Signal.like(s3, name="s4")
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += digits.eq(self.job.payload.mode == VectorMode.DIGITS)
        with m.If(step):
            m.d.sync += [s4.eq(s3), gap.eq(ends & digits)]
        for lane, total in enumerate(totals):
            tap = delayed(m, self.b.payload.data[lane], 4, step, reset=False)
            with m.If(step & s4.valid):
                m.d.sync += total.eq(Mux(s4.first, kept[lane], total) + tap)

    def _keep(self, m, job, multiplies, digits, step, s1, s2, done, results):
        """Keep finished windows in a memory; returns, by lane, what the next windows add to, as they are in stage 3.

        A window is read when its first tap is in stage 1, so long before the same window is written. DIGITS has two
        words a window, the second one read and written a cycle after the first.
        """
        config = self.config
        if not config.adds_products:
            return [0] * config.rows
        m.submodules.sums = sums = BlockMemory(
            data.ArrayLayout(signed(config.acc_width), config.rows), config.kept_words
        )  # fmt: skip
        starts = self.job.valid & self.job.ready
        reads, writes, value = s1.valid & s1.first, done.valid, results[0]
        if config.normalises:
            also = Signal()
            with m.If(step):
                m.d.sync += also.eq(digits & writes)
            value = [Mux(also, total, first) for first, total in zip(*results, strict=True)]
            reads, writes = reads | (digits & s2.valid & s2.first), writes | also
        for address, moves in ((sums.r_addr, reads), (sums.w_addr, writes)):
            word = Signal.like(address)
            m.d.comb += address.eq(word)
            with m.If(step & moves):
                m.d.sync += word.eq(word + 1)
            with m.If(starts):
                m.d.sync += word.eq(0)
        m.d.comb += [sums.r_en.eq(step), sums.w_en.eq(step & writes & job.keeps & multiplies)]
        kept = [Signal.like(each, name=f"kept{lane}") for lane, each in enumerate(results[0])]
        for lane, each in enumerate(kept):
            m.d.comb += sums.w_data[lane].eq(value[lane])
            with m.If(step):
                m.d.sync += each.eq(Mux(job.adds & multiplies, sums.r_data[lane], 0))
        return kept

    def _drop(self, m, taken):
        """Draw the lanes of each finished window that stay; returns whether that is done, and them.

        A window's mask is there before it is finished, or everything waits.
        """
        m.submodules.dropout = dropout = Dropout(self.config)
        m.d.comb += [
            dropout.start.eq(self.job.valid & self.job.ready), dropout.job.eq(self.drop), dropout.key.eq(self.key),
            dropout.o.ready.eq(taken),
        ]  # fmt: skip
        return dropout.o.valid, dropout.o.payload

    def _give(self, m, step, s3_last, done, is_max, digits, keeps, working, results):
        """Give finished windows, each before its indices if any, which leave while the next window is reduced.

        While that can't leave, everything waits. With batch norm a window may leave as its digits, which all wait for.
        """
        value, index, totals = results
        normalises = self.config.normalises
        # Results go on through a register slice, one every two cycles: two places help batch norm's alone.
        m.submodules.skid = skid = (Skid if normalises else RegisterSlice)(self.o.payload.shape())
        wiring.connect(m, skid.o, wiring.flipped(self.o))
        pending = Signal(range(2 * SUM_DIGITS) if normalises else 1)  # vectors of a window to leave after the first
        others = pending != 0
        stops = done.valid | digits if normalises else done.valid
        leaves = done.valid & ~keeps
        goes_on = (skid.i.ready | ~leaves) & ~(others & stops)
        if self.config.drops:
            drawn, stays = self._drop(m, step & done.valid)
            leaves, goes_on = leaves & drawn, goes_on & drawn
        m.d.comb += [skid.i.valid.eq(others | leaves), self.busy.eq(working | others | self.o.valid)]
        if normalises or self.config.drops:  # digits and masks are known in the cycle itself
            m.d.comb += step.eq(goes_on)
        else:  # decided a cycle ahead, as hundreds of registers wait for it
            will_be_done = Mux(step, s3_last, done.valid)
            will_be_free = Mux(skid.i.ready, ~skid.i.valid, skid.o.ready)
            will_have_index = Mux(skid.i.ready, ~others & done.valid & is_max, others)
            m.d.sync += step.eq(~will_be_done | ((will_be_free | keeps) & ~will_have_index))
        with m.If(step & done.valid & done.end):
            m.d.sync += working.eq(0)
        with m.If(skid.i.ready):
            m.d.sync += pending.eq(Mux(others, pending - 1, done.valid & is_max))
            if normalises:
                with m.If(~others & done.valid & ~keeps & digits):
                    m.d.sync += pending.eq(2 * SUM_DIGITS - 1)
        shape = signed(self.config.acc_width) if normalises else COUNT_BITS
        ends = pending == 1, pending == SUM_DIGITS + 1  # the last digit of the second sum, of the first
        for lane in range(self.config.rows):
            second = Signal(shape, name=f"second{lane}", reset_less=True)
            first = Mux(stays[lane], value[lane], 0) if self.config.drops else value[lane]
            m.d.comb += skid.i.payload[lane].eq(Mux(others, second, first))
            with m.If(~others):
                m.d.sync += second.eq(index[lane])
            if normalises:
                with m.If(digits):
                    m.d.comb += skid.i.payload[lane].eq(Mux(others, second, first)[:DIGIT_BITS])
                    with m.If(ends[0] | ends[1]):
                        m.d.comb += skid.i.payload[lane].eq(second)
                    with m.If(~others):
                        m.d.sync += second.eq(first >> DIGIT_BITS)
                    with m.Elif(skid.i.ready):
                        m.d.sync += second.eq(Mux(ends[1], totals[lane], second >> DIGIT_BITS))
