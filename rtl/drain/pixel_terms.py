"""Sums of a vector's results by window, if the lanes are pixels."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.descriptors import DRAIN
from ..lib.delay import delayed
from ..lib.interfaces import descriptor_layout
from .window_sums import N_WINDOWS, PartLayout, TermLayout

__all__ = ["PixelTerms"]

_Place = data.StructLayout({"columns": 2, "rows": 2})
"""Windows that a pixel lies in."""


class PixelTerms(wiring.Component):
    """Turns vectors, each of one filter's results, into terms for that filter's sums.

    A row of vectors begins with ``clear``. Then come ``cols`` cycles with ``locate``, each with the windows of a pixel.
    A vector may come as many cycles after the last one as there are windows in ``wanted``; all of a row have the same
    groups.

    Members
    -------
    d : In(descriptor_layout(DRAIN))
        the descriptor
    start : In(1)
        begin with ``d``, before the first ``clear``
    clear : In(1)
        a row of vectors begins
    locate, rows, columns : In
        windows that the next pixel lies in
    wanted : Out(N_WINDOWS)
        windows that the row's vectors are added to, a cycle each
    i, valid : In(PartLayout(config)), In(1)
        a group of a vector
    term : Out(TermLayout(config))
        its sums

    Attributes
    ----------
    latency
        cycles from a vector's last group to its first term

    Timing
    ------
    Terms follow ``latency`` = 1 + ceil(log2(cols)) cycles after a vector's last group and in the
    cycles after that.
    """

    def __init__(self, config: Config):
        self._config = config
        self.latency = 1 + (config.cols - 1).bit_length()
        super().__init__({
            "d": In(descriptor_layout(DRAIN)), "start": In(1),
            "clear": In(1), "locate": In(1), "rows": In(2), "columns": In(2), "wanted": Out(N_WINDOWS),
            "i": In(PartLayout(config)), "valid": In(1), "term": Out(TermLayout(config)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        d = self.d
        begun, first, fresh = Signal(), Signal(), Signal()
        m.d.comb += first.eq(d.fresh & ~begun)
        places = Signal(data.ArrayLayout(_Place, self._config.cols))
        with m.If(self.start):
            m.d.sync += begun.eq(0)
        with m.If(self.clear):  # the first row replaces the sums, touched or not
            m.d.sync += [begun.eq(1), fresh.eq(first), self.wanted.eq(first.replicate(N_WINDOWS))]
        with m.If(self.locate):
            m.d.sync += [
                places.as_value().eq(Cat(places.as_value()[_Place.size :], self.columns, self.rows)),
                self.wanted.eq(self.wanted | Cat(row & column for row in self.rows for column in self.columns)),
            ]

        filter = Signal(range(self._config.n_filters))
        left = Signal(N_WINDOWS)  # windows that the vector is still to be added to
        held = Signal(data.ArrayLayout(signed(self._config.operand_width), self._config.cols), reset_less=True)
        m.d.sync += left.eq(left & (left - 1))
        with m.If(self.clear):
            m.d.sync += [filter.eq(d.at[2:] - 1), held.eq(0)]
        with m.If(self.valid & self.i.final):
            m.d.sync += [left.eq(self.wanted), filter.eq(filter + 1)]
        values = [Mux(there, value, 0) for value, there in zip(self.i.values, self.i.mask, strict=True)]
        for lane, to in enumerate(held):
            group, place = divmod(lane, len(values))
            with m.If(self.valid & (self.i.group == group)):
                m.d.sync += to.eq(values[place])
        window = Signal(range(N_WINDOWS))
        m.d.comb += window.eq(Mux(left[0], 0, Mux(left[1], 1, Mux(left[2], 2, 3))))

        chosen = [place.rows.bit_select(window[1], 1) & place.columns.bit_select(window[0], 1) for place in places]
        m.d.comb += [
            self.term.value.eq(self._sum(m, [Mux(c, o, 0) for c, o in zip(chosen, held, strict=True)])),
            self.term.valid.eq(delayed(m, left.any(), self.latency - 1)),
            self.term.at.eq(delayed(m, Cat(window, filter), self.latency - 1)),
            self.term.fresh.eq(delayed(m, fresh, self.latency - 1)),
        ]
        return m

    def _sum(self, m, values):
        """The sum, by a tree with registers at each level."""
        while len(values) > 1:
            sums = [a + b for a, b in zip(values[::2], values[1::2], strict=False)] + values[len(values) & ~1 :]
            values = [Signal.like(each, name=f"level{len(sums)}_{n}", reset_less=True) for n, each in enumerate(sums)]
            m.d.sync += [to.eq(each) for to, each in zip(values, sums, strict=True)]
        return values[0]
