"""Depthwise convolutions with kernels of two or three columns: a vector meets all windows of its column at once."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.block_memory import BlockMemory
from ..lib.delay import delayed
from ..lib.interfaces import OperandVector, VectorLayout
from ..lib.multiplier import Multiplier
from ..lib.odometer import COUNT_BITS

__all__ = ["WINDOWS", "Depthwise", "WindowsLayout"]

WINDOWS = 3
"""Windows side by side, at most, that a vector is in."""


def WindowsLayout(config: Config) -> data.StructLayout:
    """A job: rows of ``columns`` columns with ``rows`` vectors each, and windows that are ``width`` (2 or 3) wide.

    With ``skips`` a window begins in every other column only. ``vectors`` of a pass over all pixels, if not 0: sums are
    over pixels, and ``rows`` is 1. Then ``ones`` says that the last pass gives one sum; with ``keeps`` the sums are
    kept, and with ``adds`` those that the job before kept are added.
    """
    return data.StructLayout({
        "columns": COUNT_BITS, "rows": range(config.tap_rows + 1), "width": 2, "skips": 1, "vectors": COUNT_BITS,
        "ones": 1, "adds": 1, "keeps": 1,
    })  # fmt: skip


class Depthwise(wiring.Component):
    """Multiplies each vector of ``a`` with a tap for each of the windows that it is in, lane by lane.

    Sums over taps: for each group of channels, vectors of ``b`` bring the kernel, row by row. Then ``a`` brings the
    columns of each row of windows, and of a column the kernel's rows from top to bottom. Accumulator k has the window
    whose column k this is; so sums move on by one accumulator a column, and leave from the last.

    Sums over pixels: for each row of the kernel ``a`` brings the columns, and ``b`` a vector for each window, in the
    column where it begins. Those vectors move on, and accumulator k stays with column k of the kernel. Its sums leave
    after the pass.

    Members
    -------
    job : In(stream.Signature(WindowsLayout(config)))
        the jobs
    a, b : In(stream.Signature(OperandVector(config)))
        the vectors
    o : Out(stream.Signature(VectorLayout(config)))
        the results, in order; kept ones are not valid
    kept : In(VectorLayout(config))
        the word of the memory of kept sums that was read last
    r_en, r_addr, w_en, w_addr : Out
        ports of that memory; what is written is ``o``
    busy : Out(1)
        until a job's last result has gone

    Timing
    ------
    A vector a cycle within a group, as long as results leave. Of sums over pixels each but a pass's last takes a cycle
    in which no vector moves.
    """

    def __init__(self, config: Config):
        self._config = config
        vectors = stream.Signature(OperandVector(config))
        address = range(config.kept_words)
        super().__init__({
            "job": In(stream.Signature(WindowsLayout(config))), "a": In(vectors), "b": In(vectors),
            "o": Out(stream.Signature(VectorLayout(config))), "kept": In(VectorLayout(config)),
            "r_en": Out(1), "r_addr": Out(address), "w_en": Out(1), "w_addr": Out(address), "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        job = Signal(WindowsLayout(self._config))
        over_pixels, working, taking, loading = (
            Signal(name=name) for name in ("over_pixels", "working", "taking", "loading")
        )  # fmt: skip
        step, taken, begins = Signal(), Signal(), Signal()
        starts = self.job.valid & self.job.ready
        a, b = self.a.payload, self.b.payload
        m.d.comb += [
            self.busy.eq(working), self.job.ready.eq(~working),
            taken.eq(taking & ~loading & step & self.a.valid & (self.b.valid | ~(over_pixels & begins))),
            self.a.ready.eq(taken), self.b.ready.eq(loading | (taken & over_pixels & begins)),
        ]  # fmt: skip
        row = Signal(range(self._config.tap_rows))  # of the kernel, in a column
        table = self._load(m, job, loading & self.b.valid, taken, row)
        with m.If(loading & self.b.valid & b.end_pass):
            m.d.sync += loading.eq(0)
        stage = Signal(data.StructLayout({"valid": 1, "opens": 1, "done": 1, "alone": 1, "end": 1}), name="s0")
        m.d.comb += [stage.valid.eq(taken), stage.alone.eq(job.ones & a.end_pass), stage.end.eq(a.end_walk)]
        self._walk(m, job, over_pixels, starts, taken, row, begins, stage)
        with m.If(taken):
            m.d.sync += [taking.eq(~a.end_walk), loading.eq(a.end_pass & ~a.end_walk & ~over_pixels)]
        with m.If(starts):
            m.d.sync += [
                job.eq(self.job.payload), working.eq(1), taking.eq(1), over_pixels.eq(self.job.payload.vectors != 0),
                loading.eq(self.job.payload.vectors == 0),
            ]  # fmt: skip
        for number in range(1, 2 + Multiplier.LATENCY):
            later = Signal.like(stage, name=f"s{number}")
            with m.If(step):
                m.d.sync += later.eq(stage)
            stage = later
        turn = self._give(m, job, starts, step, stage, working)
        moved = self._move(m, starts, taken, begins)
        for lane in range(self._config.rows):
            factors = [Mux(over_pixels, moved[k][lane], table[k][lane]) for k in range(WINDOWS)]
            self._lane(m, lane, step, over_pixels, factors, stage, turn, job.adds)
        return m

    def _load(self, m, job, loaded, taken, row):
        """The kernel of each lane, in a memory of its rows; returns that row, of each column, which a vector meets."""
        config = self._config
        taps = data.ArrayLayout(signed(config.operand_width), config.rows)
        m.submodules.table = table = BlockMemory(data.ArrayLayout(taps, WINDOWS), config.tap_rows, granularity=1)
        column = Signal(range(WINDOWS))
        m.d.comb += [table.r_en.eq(taken), table.r_addr.eq(row), table.w_addr.eq(row)]
        for k in range(WINDOWS):
            m.d.comb += [table.w_en[k].eq(loaded & (column == k)), table.w_data[k].eq(self.b.payload.data)]
        with m.If(loaded):
            m.d.sync += column.eq(column + 1)
            with m.If(column == job.width - 1):
                m.d.sync += [column.eq(0), row.eq(Mux(self.b.payload.end_pass, 0, row + 1))]
        return table.r_data

    def _walk(self, m, job, over_pixels, starts, taken, row, begins, stage):
        """Follow the vectors: does a window begin in this column, does a sum begin with this vector, is it there then?

        No window begins in a row's last ``width - 1`` columns; so ``before`` and moved vectors are empty at its end.
        """
        left, vectors = Signal(COUNT_BITS), Signal(COUNT_BITS)  # of a row's columns, of a pass's vectors
        final, tail, odd, fresh, ending = (Signal(name=name) for name in ("final", "tail", "odd", "fresh", "ending"))
        before = Signal(WINDOWS - 1)  # a window began 1, 2 columns ago
        last_row = Signal()
        m.d.comb += [
            last_row.eq(row + 1 == job.rows), begins.eq(~tail & ~odd),
            stage.opens.eq(Mux(over_pixels, fresh, row == 0)),
            stage.done.eq(Mux(over_pixels, ending, last_row & Mux(job.width[0], before[1], before[0]))),
        ]  # fmt: skip
        with m.If(taken):
            m.d.sync += [
                row.eq(Mux(last_row, 0, row + 1)), fresh.eq(ending),
                vectors.eq(Mux(ending, job.vectors, vectors - 1)), ending.eq(~ending & (vectors == 2)),
            ]  # fmt: skip
            with m.If(last_row):
                m.d.sync += [
                    left.eq(Mux(final, job.columns, left - 1)), final.eq(~final & (left == 2)),
                    tail.eq(~final & (tail | (left == job.width))), odd.eq(~final & job.skips & ~odd),
                    before.eq(Cat(begins, before)),
                ]  # fmt: skip
        with m.If(starts):
            m.d.sync += [
                left.eq(self.job.payload.columns), vectors.eq(self.job.payload.vectors), fresh.eq(1),
                Cat(final, tail, odd, ending, before).eq(0),
            ]  # fmt: skip

    def _move(self, m, starts, taken, begins):
        """The vector of ``b`` of the window that begins in this column, and those of 1 and 2 columns ago, or zeros."""
        moved = Signal(data.ArrayLayout(self.b.payload.data.shape(), WINDOWS))
        with m.If(taken):
            m.d.sync += [
                Cat(moved[k] for k in range(1, WINDOWS)).eq(Cat(moved[k] for k in range(WINDOWS - 1))),
                moved[0].eq(Mux(begins, self.b.payload.data.as_value(), 0)),
            ]  # fmt: skip
        with m.If(starts):
            m.d.sync += moved.eq(0)
        return moved

    def _lane(self, m, lane, step, over_pixels, factors, stage, turn, adds):
        """One lane: a product and a sum for each window."""
        config = self._config
        operand = delayed(m, self.a.payload.data[lane], 1, step, reset=False)
        sums = [Signal(signed(config.acc_width), name=f"sum{lane}_{k}", reset_less=True) for k in range(WINDOWS)]
        for k, (sum_, factor) in enumerate(zip(sums, factors, strict=True)):
            m.submodules[f"multiplier{lane}_{k}"] = multiplier = Multiplier(config.operand_width)
            m.d.comb += [
                multiplier.a.eq(operand), multiplier.b.eq(factor), multiplier.en.eq(step), multiplier.b_en.eq(step),
            ]  # fmt: skip
            opened = Mux(over_pixels, 0, sums[k - 1]) if k else 0
            with m.If(step & stage.valid):
                m.d.sync += sum_.eq(Mux(stage.opens, opened, sum_) + multiplier.o)
        chosen = Mux(turn == 0, sums[0], Mux(turn == 1, sums[1], sums[2]))
        m.d.comb += self.o.payload[lane].eq(chosen + Mux(adds, self.kept[lane], 0))

    def _give(self, m, job, starts, step, stage, working):
        """Give the sums of a finished column or pass, one after the other, while everything else waits.

        Returns the number of the accumulator that gives.
        """
        done = Signal(data.StructLayout({"valid": 1, "alone": 1, "end": 1}))
        turn = Signal(range(WINDOWS))
        last, gives, begun = Signal(), Signal(), Signal()
        first, job_first = (Mux(each.vectors == 0, each.width - 1, 0) for each in (job, self.job.payload))
        m.d.comb += [
            last.eq(done.alone | (turn == job.width - 1)), gives.eq(done.valid & (job.keeps | self.o.ready)),
            step.eq(~done.valid | (gives & last)), self.o.valid.eq(done.valid & ~job.keeps),
            self.r_en.eq(begun | gives), self.r_addr.eq(self.w_addr + gives), self.w_en.eq(done.valid & job.keeps),
        ]  # fmt: skip
        word = Signal.like(self.w_addr)
        m.d.comb += self.w_addr.eq(word)
        m.d.sync += begun.eq(starts)
        with m.If(step):
            m.d.sync += [
                done.valid.eq(stage.valid & stage.done), done.alone.eq(stage.alone), done.end.eq(stage.end),
            ]  # fmt: skip
            with m.If(done.valid & done.end):
                m.d.sync += working.eq(0)
        with m.If(gives):
            m.d.sync += [word.eq(word + 1), turn.eq(Mux(last, first, turn + 1))]
        with m.If(starts):
            m.d.sync += [word.eq(0), turn.eq(job_first)]
        return turn
