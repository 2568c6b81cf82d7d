"""Performance counters: small live ones, added to the totals of each phase one after the other."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..spec.config import Config
from ..spec.registers import COUNTERS
from .csr import COUNTER_SLOTS, N_PHASES
from .delay import delayed
from .update_lane import most_saturations

__all__ = ["FLUSH_CYCLES", "Counters", "counts_layout"]

TOTAL_WIDTH = 64

FLUSH_CYCLES = 2 * COUNTER_SLOTS
"""After so many cycles at most a count is in its phase's total, if the host reads in at most half of them."""


def counts_layout(config: Config) -> data.StructLayout:
    """What the counters of :data:`adagp.spec.registers.COUNTERS` may grow by in one cycle."""
    most = {
        "macs": config.n_pes,
        "read_bytes": config.beat_bytes,
        "write_bytes": config.beat_bytes,
        "saturations": config.n_cores * config.banks + most_saturations(config),
        "predictor_macs": config.predictor_core.n_pes if config.n_cores > 1 else 1,
        "predictor_bytes": 2 * config.beat_bytes if config.predictor_on_chip else 1,
    }
    return data.StructLayout({name: most.get(name, 1).bit_length() for name, _ in COUNTERS})


class Counters(wiring.Component):
    """A set of totals for each phase, exact to the event.

    ``counts`` are this cycle's increments for the current ``phase``, which may change when nothing has
    been counted for ``FLUSH_CYCLES``. ``shown`` is the total at ``index`` (phase * COUNTER_SLOTS + place
    in the list) as of the last cycle with ``show``, ``SHOW_LATENCY`` cycles before: at most every other cycle is one.
    ``clear`` sets all to 0; counts in that cycle are lost.
    """

    SHOW_LATENCY = 3

    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "counts": In(counts_layout(config)), "phase": In(range(N_PHASES)), "clear": In(1),
            "index": In(range(N_PHASES * COUNTER_SLOTS)), "show": In(1), "shown": Out(TOTAL_WIDTH),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        depth = N_PHASES * COUNTER_SLOTS
        m.submodules.totals = totals = Memory(shape=TOTAL_WIDTH, depth=depth, init=[])
        write = totals.write_port()
        read = totals.read_port(transparent_for=(write,))
        begun = Signal(depth)  # 0: the total is 0, whatever the memory holds
        turn = Signal(range(COUNTER_SLOTS))
        s0_addr = Signal(range(depth))
        s1_valid = Signal()
        s1_addr = Signal(range(depth))
        s1_begun = Signal()

        phase = delayed(m, self.phase, 1)  # of the counts, which come in registers
        live = self._live(m, phase, s0_addr)
        s1_amount, s2_amount = Signal.like(live), Signal.like(live)
        s2_valid, s2_addr = Signal(), Signal.like(s1_addr)
        s2_total = Signal(TOTAL_WIDTH)
        m.d.comb += [
            s0_addr.eq(Mux(self.show, self.index, Cat(turn, phase))),
            read.addr.eq(s0_addr),
            write.en.eq(s2_valid & ~self.clear),
            write.addr.eq(s2_addr),
            write.data.eq(s2_total + s2_amount),
        ]
        m.d.sync += [
            s1_valid.eq(~self.clear), s1_addr.eq(s0_addr), s1_amount.eq(Mux(self.clear, 0, live)),
            s1_begun.eq((begun.bit_select(s0_addr, 1) | (s1_valid & (s1_addr == s0_addr))) & ~self.clear),
            begun.eq(begun | (s1_valid << s1_addr)),
            s2_valid.eq(s1_valid & ~self.clear), s2_addr.eq(s1_addr), s2_amount.eq(s1_amount),
            s2_total.eq(Mux(s1_begun, Mux(s2_valid & (s2_addr == s1_addr), write.data, read.data), 0)),
        ]  # fmt: skip
        with m.If(delayed(m, self.show, self.SHOW_LATENCY - 1)):
            m.d.sync += self.shown.eq(write.data)
        with m.If(~self.show):
            m.d.sync += turn.eq(turn + 1)
        with m.If(self.clear):
            m.d.sync += begun.eq(0)
        return m

    def _live(self, m, phase, addr):
        """What the counter of ``addr`` has counted since it was last taken; it is taken now."""
        place = addr[: exact_log2(COUNTER_SLOTS)]
        current = addr[exact_log2(COUNTER_SLOTS) :] == phase
        chosen = []
        for i, (name, _) in enumerate(COUNTERS):
            count = self.counts[name]
            live = Signal(len(count) + exact_log2(FLUSH_CYCLES), name=f"live_{name}")
            taken = current & (place == i)
            m.d.sync += live.eq(Mux(taken, 0, live) + count)
            with m.If(self.clear):
                m.d.sync += live.eq(0)
            chosen.append(Mux(taken, live, 0))
        return reduce(or_, chosen)
