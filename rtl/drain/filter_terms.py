"""Sums of a tile's results by window, if the lanes are filters."""

from amaranth import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.descriptors import DRAIN
from ..lib.delay import delayed
from ..lib.interfaces import descriptor_layout
from .window_sums import N_WINDOWS, PartLayout, TermLayout, tile_width

__all__ = ["FilterTerms"]


class FilterTerms(wiring.Component):
    """Adds up vectors, each of one pixel's results, and turns a row of them into terms for the filters' sums.

    A pixel lies in one window, or in each of a row or column of windows; of these only the first is summed up here.
    There is an adder for each lane of a group. All vectors of a row have the same groups.

    Members
    -------
    d : In(descriptor_layout(DRAIN))
        the descriptor
    start : In(1)
        begin with ``d``
    i, valid : In(PartLayout(config)), In(1)
        a group of a pixel's results
    rows, columns : In(2)
        windows that the pixel lies in
    flush : In(1)
        after a row of vectors: give the sums; no vector may come meanwhile
    n_lanes : In(range(config.cols + 1))
        filters whose sums are given
    done : Out(1)
        in the last of ``N_WINDOWS * n_lanes`` cycles of ``flush``
    term : Out(TermLayout(config))
        the sums, one a cycle

    Timing
    ------
    A group a cycle; terms follow ``LATENCY`` cycles after ``flush``.
    """

    LATENCY = 2

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "d": In(descriptor_layout(DRAIN)), "start": In(1),
            "i": In(PartLayout(config)), "valid": In(1),
            "rows": In(2), "columns": In(2),
            "flush": In(1), "n_lanes": In(range(config.cols + 1)), "done": Out(1), "term": Out(TermLayout(config)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config, d = self._config, self.d
        width, groups = len(self.i.values), config.folds(config.cols)
        sums = data.ArrayLayout(signed(tile_width(config)), width)
        m.submodules.memory = memory = Memory(shape=sums, depth=N_WINDOWS * groups, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        touched = Signal(N_WINDOWS)  # sums since the last flush
        at, lane = Signal(range(N_WINDOWS * config.n_filters)), Signal(range(config.cols))
        window, group, adds, final = Signal(range(N_WINDOWS)), Signal(range(groups)), Signal(), Signal()
        m.d.sync += adds.eq(self.valid & self.rows.any() & self.columns.any())
        with m.If(self.flush):
            m.d.sync += window.eq(Cat(at[0] & (d.width != 1), at[1] & (d.height != 1)))
        with m.Else():
            m.d.sync += window.eq(Cat(~self.columns[0], ~self.rows[0]))
        group_of, place_of = (Array(each) for each in zip(*(divmod(n, width) for n in range(config.cols)), strict=True))
        m.d.sync += [group.eq(Mux(self.flush, group_of[lane], self.i.group)), final.eq(self.i.final)]
        results = delayed(m, self.i.values, 1, reset=False)
        known = Signal()
        m.d.comb += [
            known.eq(touched.bit_select(window, 1)),
            read.addr.eq(Cat(window, group)), write.addr.eq(Cat(window, group)), write.en.eq(adds),
            *(write.data[n].eq(Mux(known, read.data[n], 0) + results[n]) for n in range(width)),
        ]  # fmt: skip
        with m.If(adds & final):
            m.d.sync += touched.eq(touched | (1 << window))

        lane_end = at[:2] == N_WINDOWS - 1
        m.d.comb += self.done.eq(self.flush & lane_end & (lane + 1 == self.n_lanes))
        with m.If(self.start):
            m.d.sync += at.eq(d.at)
        with m.Elif(self.flush):
            m.d.sync += [at.eq(at + 1), lane.eq(lane + lane_end)]
        with m.If(self.done):
            m.d.sync += lane.eq(0)
        with m.If(delayed(m, self.done, 1)):
            m.d.sync += touched.eq(0)
        place = delayed(m, place_of[lane], self.LATENCY - 1)
        m.d.sync += [
            self.term.valid.eq(delayed(m, self.flush, self.LATENCY - 1)),
            self.term.at.eq(delayed(m, at, self.LATENCY - 1)),
            self.term.value.eq(Mux(known, Array(read.data)[place], 0)),
            self.term.fresh.eq(d.fresh),
        ]
        return m
