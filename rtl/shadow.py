"""Shadow exponents: what the results of a batch were, tensor by tensor."""

from amaranth import Assert, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from .interfaces import ResultLayout

__all__ = ["Shadow", "ShadowLayout", "result_ports", "result_sources"]

EVENT_DEPTH = 4
"""Events of one source that may wait while the other source's are entered."""

ShadowLayout = data.StructLayout({"seen": 1, "nonzero": 1, "top": signed(10)})
"""A tensor's shadow: any result since the last commit, any nonzero one, their greatest ``top``."""


def result_sources(config: Config) -> tuple[str, ...]:
    """Who reports results' maxima."""
    return ("drain", "update", *(("predictor",) if config.n_cores > 1 else ()))


def result_ports(config: Config) -> dict:
    """Members of a signature for the reports of all sources."""
    return {
        name: member for source in result_sources(config)
        for name, member in ((f"{source}_result_valid", In(1)), (f"{source}_result", In(ResultLayout)))
    }  # fmt: skip


class Shadow(wiring.Component):
    """Gathers result events of its ``sources``, which may come in the same cycle.

    One event is entered per cycle; the first source goes first. ``settled``: none is left to enter. Only
    while ``settled``: entry ``addr`` appears on ``entry`` in the next cycle, and is set to zero with
    ``clear``, which therefore comes one cycle after its ``addr``.
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
        m.submodules.memory = memory = Memory(shape=ShadowLayout, depth=self.config.n_tensors, init=[])
        write = memory.write_port()
        read = memory.read_port(transparent_for=(write,))
        s0_valid = Signal()
        s0_event = Signal(ResultLayout)
        earlier = 0  # whether a source before it has one
        for name in self.sources:
            valid, event = getattr(self, f"{name}_result_valid"), getattr(self, f"{name}_result")
            m.submodules[name] = events = self._events(m, valid, event)
            m.d.comb += events.r_en.eq(~Cat(earlier).any())
            with m.If(events.r_rdy & ~Cat(earlier).any()):
                m.d.comb += [s0_valid.eq(1), s0_event.eq(data.View(ResultLayout, events.r_data))]
            earlier = Cat(earlier, events.r_rdy)
        s1_valid = Signal()
        s1_event = Signal(ResultLayout)
        s1_addr = Signal(range(self.config.n_tensors))
        m.d.comb += [
            read.addr.eq(Mux(s0_valid, s0_event.id, self.addr)),
            self.settled.eq(~s0_valid & ~s1_valid),
            self.entry.eq(read.data),
        ]
        m.d.sync += [s1_valid.eq(s0_valid), s1_event.eq(s0_event), s1_addr.eq(read.addr)]

        old = read.data
        greater = s1_event.nonzero & (~old.nonzero | (s1_event.top > old.top))
        m.d.comb += [write.en.eq(s1_valid | self.clear), write.addr.eq(s1_addr)]
        with m.If(s1_valid):
            m.d.comb += [
                write.data.seen.eq(1),
                write.data.nonzero.eq(old.nonzero | s1_event.nonzero),
                write.data.top.eq(Mux(greater, s1_event.top, old.top)),
            ]
        return m

    def _events(self, m, valid, event):
        fifo = SyncFIFO(width=len(event.as_value()), depth=EVENT_DEPTH)
        m.d.comb += [fifo.w_en.eq(valid), fifo.w_data.eq(event)]
        with m.If(valid):
            m.d.sync += Assert(fifo.w_rdy, "results come faster than they can be entered")
        return fifo
