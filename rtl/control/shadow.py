"""Shadow exponents: the maxima of a batch's results, tensor by tensor."""

from amaranth import Assert, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.block_memory import BlockMemory
from ..lib.interfaces import ResultLayout

__all__ = ["Shadow", "ShadowLayout", "result_ports", "result_sources"]

EVENT_DEPTH = 4
"""Events of a source that may wait while another source's are entered."""

ShadowLayout = data.StructLayout({"seen": 1, "nonzero": 1, "top": signed(10)})
"""A tensor's shadow: any result since the last commit, any nonzero one, their greatest ``top``."""


def result_sources(config: Config) -> tuple[str, ...]:
    """Names of the blocks that report results' maxima."""
    return ("drain", "update", *(("predictor",) if config.n_cores > 1 else ()))


def result_ports(config: Config) -> dict:
    """Members of a signature for the reports of all sources."""
    return {
        name: member for source in result_sources(config)
        for name, member in ((f"{source}_result_valid", In(1)), (f"{source}_result", In(ResultLayout(config))))
    }  # fmt: skip


class Shadow(wiring.Component):
    """Gathers result events of several sources, which may come in the same cycle.

    The event of the first source in :func:`result_sources` is entered first.

    Members
    -------
    SOURCE_result_valid, SOURCE_result : In(1), In(ResultLayout(config))
        events of a source; at most EVENT_DEPTH that aren't entered
    settled : Out(1)
        all events are entered
    addr, entry : In(range(n_tensors)), Out(ShadowLayout)
        read an entry; only while ``settled``
    clear : In(1)
        set the entry shown to zero; comes a cycle after its ``addr``

    Timing
    ------
    Entering an event takes three cycles. ``entry`` follows ``addr`` a cycle later.
    """

    def __init__(self, config: Config):
        self.config = config
        self.sources = result_sources(config)
        super().__init__({
            **result_ports(config),
            "settled": Out(1),
            "addr": In(range(config.n_tensors)), "clear": In(1), "entry": Out(ShadowLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = BlockMemory(ShadowLayout, self.config.n_tensors)
        event_layout = ResultLayout(self.config)
        s0_valid = Signal()
        s0_event = Signal(event_layout)
        s1_valid, s2_valid = Signal(), Signal()
        earlier = 0  # high if a source before this one has an event
        for name in self.sources:
            valid, event = getattr(self, f"{name}_result_valid"), getattr(self, f"{name}_result")
            m.submodules[name] = events = self._events(m, valid, event)
            chosen = ~Cat(earlier).any() & ~s1_valid & ~s2_valid
            m.d.comb += events.r_en.eq(chosen)
            with m.If(events.r_rdy & chosen):
                m.d.comb += [s0_valid.eq(1), s0_event.eq(data.View(event_layout, events.r_data))]
            earlier = Cat(earlier, events.r_rdy)
        s1_event, s2_event = Signal(event_layout), Signal(event_layout)
        s1_addr = Signal(range(self.config.n_tensors))
        old = Signal(ShadowLayout)
        m.d.comb += [
            memory.r_en.eq(1), memory.r_addr.eq(Mux(s0_valid, s0_event.id, self.addr)),
            self.settled.eq(~Cat(earlier).any() & ~s1_valid & ~s2_valid), self.entry.eq(memory.r_data),
        ]  # fmt: skip
        m.d.sync += [
            s1_valid.eq(s0_valid), s1_event.eq(s0_event), s1_addr.eq(memory.r_addr),
            s2_valid.eq(s1_valid), s2_event.eq(s1_event), old.eq(memory.r_data),
        ]  # fmt: skip
        # Both are known before the sign of the difference, which is late because of its carries.
        first, compared = Signal(name="first"), Signal(name="compared")
        m.d.sync += [
            first.eq(s1_event.nonzero & ~memory.r_data.nonzero), compared.eq(s1_event.nonzero),
        ]  # fmt: skip
        greater = first | (compared & (old.top - s2_event.top)[-1])
        m.d.comb += [
            memory.w_en.eq(s2_valid | self.clear), memory.w_addr.eq(Mux(s2_valid, s2_event.id, s1_addr)),
        ]  # fmt: skip
        with m.If(s2_valid):
            m.d.comb += [
                memory.w_data.seen.eq(1),
                memory.w_data.nonzero.eq(old.nonzero | s2_event.nonzero),
                memory.w_data.top.eq(Mux(greater, s2_event.top, old.top)),
            ]
        return m

    def _events(self, m, valid, event):
        fifo = SyncFIFO(width=len(event.as_value()), depth=EVENT_DEPTH)
        m.d.comb += [fifo.w_en.eq(valid), fifo.w_data.eq(event)]
        with m.If(valid):
            m.d.sync += Assert(fifo.w_rdy, "results come faster than they can be entered")
        return fifo
