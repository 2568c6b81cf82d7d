"""Reorganise: sums up a layer's results by filter and window while the drain writes them."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ...spec.config import Config
from ...spec.microcode.descriptors import DRAIN
from ..lib.interfaces import descriptor_layout
from .epilogue import result_latency
from .filter_terms import FilterTerms
from .pixel_terms import PixelTerms
from .window_sums import N_WINDOWS, PartLayout, WindowSums
from .window_walk import WindowWalk

__all__ = ["Reorganise"]


class Reorganise(wiring.Component):
    """Sums up the results of DRAIN descriptors with ``reorganise``, and gives the sums back.

    With ``d.vector``, ``o`` gives the sums times ``d.mantissa``, one a cycle, and everything else stands still.

    Members
    -------
    d : In(descriptor_layout(DRAIN))
        the descriptor; stands still while ``busy``
    start : In(1)
        begin with ``d``
    busy : Out(1)
        from the cycle after ``start`` until all is summed up
    enter : In(1)
        a vector enters the epilogue; only while ``ready``
    row, last : In(1)
        it is the last of an o, of the descriptor
    ready, next_ready : Out(1)
        a vector may enter, in this cycle and in the next one
    i : In(PartLayout(config))
        the epilogue's results, a group of lanes after the other; the last ``result_latency(config)`` cycles later
    o : Out(stream.Signature(signed(config.acc_width)))
        the sums
    next_valid : Out(1)
        ``o.valid`` of the next cycle

    Attributes
    ----------
    settle_cycles
        cycles from the last vector of an o until nothing of it is under way

    Timing
    ------
    A group of a vector takes a cycle; with swap, a cycle for each window that its lanes touch. After each o nothing
    enters for ``settle_cycles`` and ``N_WINDOWS`` cycles per filter or, with swap, one per lane.
    """

    def __init__(self, config: Config):
        self._config = config
        self.settle_cycles = result_latency(config) + N_WINDOWS
        super().__init__({
            "d": In(descriptor_layout(DRAIN)), "start": In(1), "busy": Out(1),
            "enter": In(1), "row": In(1), "last": In(1), "ready": Out(1), "next_ready": Out(1),
            "i": In(PartLayout(config)),
            "o": Out(stream.Signature(signed(config.acc_width))), "next_valid": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        d = self.d
        m.submodules.walk = walk = WindowWalk(self._config)
        m.submodules.filters = filters = FilterTerms(self._config)
        m.submodules.pixels = pixels = PixelTerms(self._config)
        m.submodules.sums = sums = WindowSums(self._config)
        connect(m, sums.o, flipped(self.o))
        arrived = Signal()
        m.d.comb += [
            arrived.eq(self.i.mask[0] & self.busy),
            walk.d.eq(d), walk.start.eq(self.start),
            filters.d.eq(d), filters.start.eq(self.start), filters.i.eq(self.i), filters.valid.eq(arrived & ~d.swap),
            filters.rows.eq(walk.rows), filters.columns.eq(walk.columns),
            pixels.d.eq(d), pixels.start.eq(self.start), pixels.i.eq(self.i), pixels.valid.eq(arrived & d.swap),
            pixels.rows.eq(walk.rows), pixels.columns.eq(walk.columns),
            sums.d.eq(d), sums.start.eq(self.start & d.reorganise & d.vector),
            sums.term.eq(Mux(d.swap, pixels.term, filters.term)), self.next_valid.eq(sums.next_valid),
        ]  # fmt: skip
        self._control(m, walk, filters, pixels)
        return m

    def _control(self, m, walk, filters, pixels):
        """Take one row of vectors after the other: locate its pixels, let its vectors enter, collect their sums."""
        d, cols = self.d, self._config.cols
        end_cycles = max(pixels.latency, FilterTerms.LATENCY) + WindowSums.ADD_LATENCY
        count = Signal(range(max(self.settle_cycles, cols, end_cycles)))
        ended = Signal()
        pace = Signal(N_WINDOWS)  # a bit for each cycle to wait
        others = Signal(N_WINDOWS)  # windows of a vector after its first
        m.d.comb += others.eq(Mux(d.swap, pixels.wanted & (pixels.wanted - 1), 0))
        m.d.sync += [count.eq(count - 1), pace.eq(pace & (pace - 1)), self.ready.eq(self.next_ready)]
        with m.FSM() as fsm:
            with m.State("IDLE"), m.If(self.start & d.reorganise & ~d.vector):
                m.next = "FIRST"
            with m.State("FIRST"):
                m.d.comb += [walk.step.eq(1), pixels.clear.eq(1), self.next_ready.eq(~d.swap)]
                m.d.sync += count.eq(cols - 1)
                m.next = "STREAM"
                with m.If(d.swap):
                    m.next = "LOCATE"
            with m.State("LOCATE"):
                m.d.comb += [walk.step.eq(1), pixels.locate.eq(1)]
                with m.If(count == 0):
                    m.d.comb += self.next_ready.eq(1)
                    m.next = "STREAM"
            with m.State("STREAM"):
                m.d.comb += self.next_ready.eq((pace & (pace - 1)) == 0)
                with m.If(self.enter & self.ready):
                    m.d.sync += [count.eq(self.settle_cycles - 1), ended.eq(self.last), pace.eq(others)]
                    m.d.comb += self.next_ready.eq(~self.row & (others == 0))
                    with m.If(self.row):
                        m.next = "SETTLE"
            with m.State("SETTLE"), m.If(count == 0):
                m.next = "FLUSH"
                with m.If(d.swap):
                    m.d.comb += pixels.clear.eq(1)
                    m.d.sync += count.eq(Mux(ended, end_cycles, cols) - 1)
                    m.next = "LOCATE"
                    with m.If(ended):
                        m.next = "END"
            with m.State("FLUSH"):
                m.d.comb += filters.flush.eq(1)
                with m.If(filters.done):
                    m.d.sync += count.eq(end_cycles - 1)
                    m.d.comb += self.next_ready.eq(~ended)
                    m.next = "STREAM"
                    with m.If(ended):
                        m.next = "END"
            with m.State("END"), m.If(count == 0):
                m.next = "IDLE"
        with m.If(filters.valid & self.i.final):
            m.d.comb += walk.step.eq(1)
        m.d.comb += [
            self.busy.eq(~fsm.ongoing("IDLE")),
            filters.n_lanes.eq(Mux(ended, d.lanes_last, cols)),
        ]
