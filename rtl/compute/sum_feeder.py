"""Feeds the output-stationary array: slices of both operands, element by element; says where the sums go."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.delay import delayed
from ..lib.interfaces import OperandVector, Token
from .accumulator import Accumulator, SumLayout
from .feeder import GemmLayout
from .transposer import Transposer

__all__ = ["SumFeeder"]


class SumFeeder(wiring.Component):
    """Pairs slices of the rows' operand with slices of the columns' one, and says where the sums go.

    A block of sums is up to ``rows`` outer positions of one operand by up to ``cols`` of the other. Its slices follow
    each other, ``vector_lanes`` reduction elements each. With its last element its rows begin to leave the array, one a
    cycle; the next block's last element waits for the last row.

    Members
    -------
    gemm : In(stream.Signature(GemmLayout))
        the GEMMs
    stream, stationary : In(stream.Signature(OperandVector(config)))
        vectors of the operands of rows and of columns
    acc_free : Out(Token())
        token of an accumulator half
    a, b, add, first, row : Out
        to the array
    tag : Out(SumLayout)
        for the accumulator, with the psums of ``row``, which comes a cycle later
    macs : Out(range(config.n_pes + 1))
        valid products of an element, ``MACS_LATENCY`` cycles after it is taken
    active : Out(1)
        an element of the reduction is taken
    undrained : Out(1)
        only an accumulator half is missing
    busy : Out(1)
        a GEMM is in progress

    Timing
    ------
    An element a cycle, if the vectors of a slice come as fast as the elements of the one before are taken.
    """

    MACS_LATENCY = 2

    def __init__(self, config: Config):
        operand = signed(config.operand_width)
        super().__init__({
            "gemm": In(stream.Signature(GemmLayout)),
            "stream": In(stream.Signature(OperandVector(config))),
            "stationary": In(stream.Signature(OperandVector(config))),
            "acc_free": Out(Token()),
            "a": Out(data.ArrayLayout(operand, config.rows)), "b": Out(data.ArrayLayout(operand, config.cols)),
            "add": Out(1), "first": Out(1), "row": Out(range(config.rows)),
            "tag": Out(SumLayout), "macs": Out(range(config.n_pes + 1)), "active": Out(1), "undrained": Out(1),
            "busy": Out(1),
        })  # fmt: skip
        self.config = config

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.rows = rows = Transposer(config, config.rows)
        m.submodules.cols = cols = Transposer(config, config.cols)
        wiring.connect(m, wiring.flipped(self.stream), rows.i)
        wiring.connect(m, wiring.flipped(self.stationary), cols.i)
        gemm = Signal(GemmLayout)
        k = Signal(range(config.vector_lanes))
        opened, half, leaves = (Signal(name=name) for name in ("opened", "half", "leaves"))
        pause = Signal(range(max(config.rows, Accumulator.latency)))  # until the next block may leave
        fresh = Signal(init=1)  # the next element is a block's first
        need_half, ready, ends_slice, ends_block, ends = (
            Signal(name=name) for name in ("need_half", "ready", "ends_slice", "ends_block", "ends")
        )
        m.d.comb += [
            need_half.eq(gemm.first & ~opened), ready.eq(self.busy & rows.there & cols.there),
            ends_slice.eq(k + 1 == rows.slice.lanes), ends_block.eq(ends_slice & rows.slice.end_sweep),
            self.active.eq(ready & (~ends_block | ((pause == 0) & (~need_half | self.acc_free.avail)))),
            self.undrained.eq(ready & ends_block & (pause == 0) & need_half & ~self.acc_free.avail),
            leaves.eq(self.active & ends_block), self.acc_free.take.eq(leaves & need_half),
            ends.eq(leaves & rows.slice.end_walk), self.gemm.ready.eq(~self.busy | ends),
        ]  # fmt: skip
        for transposer in (rows, cols):
            m.d.comb += [
                transposer.step.eq(self.active), transposer.k.eq(k), transposer.done.eq(self.active & ends_slice),
            ]  # fmt: skip
        with m.If(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        with m.If(self.active):
            m.d.sync += [k.eq(Mux(ends_slice, 0, k + 1)), fresh.eq(ends_block)]
        with m.If(leaves):  # a word may be added to again after the accumulator's latency
            least = Accumulator.latency
            m.d.sync += [opened.eq(1), pause.eq(Mux(rows.slice.count > least, rows.slice.count, least) - 1)]
        with m.If(ends):
            m.d.sync += [self.busy.eq(0), half.eq(half ^ gemm.last)]
        with m.If(self.gemm.valid & self.gemm.ready):
            m.d.sync += [self.busy.eq(1), gemm.eq(self.gemm.payload), opened.eq(0)]
        self._drain(m, leaves, rows.slice, gemm, half)
        factors = (Mux(self.active, rows.slice.count, 0), cols.slice.count)
        m.d.sync += self.macs.eq(delayed(m, factors[0], 1) * delayed(m, factors[1], 1))
        m.d.comb += [
            self.a.eq(rows.o), self.b.eq(cols.o), self.add.eq(delayed(m, self.active, Transposer.LATENCY)),
            self.first.eq(delayed(m, fresh, Transposer.LATENCY)),
        ]  # fmt: skip
        return m

    def _drain(self, m, leaves, block, gemm, half):
        """Number a block's rows as they leave, and tag their sums."""
        row, left = Signal.like(self.row), Signal.like(block.count)
        use = Signal(SumLayout)  # of the block's last row
        single = left == 1
        m.d.comb += [
            self.row.eq(delayed(m, row, 1)),
            self.tag.valid.eq(left != 0), self.tag.half.eq(use.half), self.tag.overwrite.eq(use.overwrite),
            self.tag.end_sweep.eq(use.end_sweep & single), self.tag.full.eq(use.full & single),
        ]  # fmt: skip
        with m.If(left != 0):
            m.d.sync += [row.eq(row + 1), left.eq(left - 1)]
        with m.If(leaves):
            m.d.sync += [
                row.eq(0), left.eq(block.count), use.half.eq(half), use.overwrite.eq(gemm.first),
                use.end_sweep.eq(block.end_walk), use.full.eq(block.end_walk & gemm.last),
            ]  # fmt: skip
