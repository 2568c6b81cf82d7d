"""Finds the 2x2 windows of its image that each pixel of a tile lies in."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.descriptors import DRAIN
from ..lib.interfaces import descriptor_layout

__all__ = ["WindowWalk"]


class WindowWalk(wiring.Component):
    """Walks the pixels of a DRAIN descriptor's tile: images, rows, columns, and from the start again.

    A window is half the extent, rounded down; where the extent is 1, a pixel lies in both.

    Members
    -------
    d : In(descriptor_layout(DRAIN))
        the descriptor
    start : In(1)
        begin with ``d``
    step : In(1)
        go to the next pixel, or the first
    rows, columns : Out(2)
        bit k says that the pixel lies in the windows' row or column k

    Timing
    ------
    ``rows`` and ``columns`` follow one cycle after ``step``; a pixel a cycle.
    """

    def __init__(self, config: Config):
        super().__init__({
            "d": In(descriptor_layout(DRAIN)), "start": In(1), "step": In(1), "rows": Out(2), "columns": Out(2),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        d = self.d
        x, y = Signal.like(d.width), Signal.like(d.height)  # of the next pixel
        rows_left = Signal.like(d.rows)
        line_end, rows_end = (
            Signal(),
            Signal(),
        )  # they end with that pixel; all other registers wait for these
        with m.If(self.start):
            m.d.sync += [x.eq(0), y.eq(d.row), rows_left.eq(d.rows)]
            m.d.sync += [line_end.eq(d.width == 1), rows_end.eq(d.rows == 1)]
        with m.Elif(self.step):
            m.d.sync += [
                self.columns.eq(self._places(x, d.width)),
                self.rows.eq(self._places(y, d.height)),
                x.eq(x + 1), line_end.eq(x + 2 == d.width),
            ]  # fmt: skip
            with m.If(line_end):
                m.d.sync += [x.eq(0), line_end.eq(d.width == 1)]
                m.d.sync += [y.eq(y + 1), rows_left.eq(rows_left - 1), rows_end.eq(rows_left == 2)]
                with m.If(rows_end):
                    m.d.sync += [y.eq(d.row), rows_left.eq(d.rows), rows_end.eq(d.rows == 1)]
        return m

    def _places(self, at, extent):
        """Windows that ``at`` lies in, as bits."""
        size = extent >> 1
        first = at < size
        return Cat(first, ~first & ((at >> 1) < size)) | (size == 0).replicate(2)
