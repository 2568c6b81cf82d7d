"""Performance counters: small live counters, added in turn to the totals of each phase."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...spec.config import Config
from ...spec.registers import COUNTER_SLOTS, COUNTERS, N_PHASES
from ..lib.delay import delayed
from ..lib.interfaces import register_layout
from ..update.sgd_lane import most_saturations

__all__ = ["FLUSH_CYCLES", "Counters", "counts_layout", "counts_of_run"]

TOTAL_WIDTH = 64

IndexLayout = register_layout("COUNTER")
"""Number of a counter, as register COUNTER holds it."""

FLUSH_CYCLES = 2 * COUNTER_SLOTS
"""Most cycles from a count to its phase's total, if the host reads in at most half of them."""

WHILE_RUNNING = ("array_cycles", "stall_a", "stall_b", "stall_load", "stall_drain", "stall_idle")
"""Counters that share out ``cycles``, and so count only together with it."""


def counts_layout(config: Config) -> data.StructLayout:
    """Increments of the counters in one cycle, by the names in :data:`adagp.spec.registers.COUNTERS`."""
    most = {
        "macs": config.n_pes,
        "read_bytes": config.beat_bytes,
        "write_bytes": config.beat_bytes,
        "saturations": config.n_cores * config.banks + most_saturations(config),
        "predictor_macs": config.predictor_core.n_pes if config.n_cores > 1 else 1,
        "predictor_bytes": 2 * config.beat_bytes if config.predictor_on_chip else 1,
    }
    return data.StructLayout({name: most.get(name, 1).bit_length() for name, _ in COUNTERS})


def counts_of_run(m: Module, counts, running, executed):
    """``counts`` a cycle later, with the counts that the run itself has in place of what they say."""
    came, counting = delayed(m, counts, 1), delayed(m, running, 1)
    of_run = Signal.like(came)
    m.d.comb += [
        of_run.eq(came), of_run.cycles.eq(counting), of_run.commands.eq(delayed(m, executed, 1)),
        *(of_run[name].eq(Mux(counting, came[name], 0)) for name in WHILE_RUNNING),
    ]  # fmt: skip
    return of_run


class Counters(wiring.Component):
    """A set of totals for each phase, exact to the event.

    Parameters
    ----------
    config : Config
        decides the widths of the increments

    Members
    -------
    counts : In(counts_layout(config))
        increments of this cycle
    phase : In(range(N_PHASES))
        phase that they belong to; may change after FLUSH_CYCLES without counts
    clear : In(1)
        set all totals to 0; counts of this cycle are lost
    index : In(range(N_PHASES * COUNTER_SLOTS))
        the counter to show, numbered as in register COUNTER
    show : In(1)
        look the counter up; not in two successive cycles
    shown : Out(64)
        total of the counter as of the last cycle with ``show``

    Timing
    ------
    ``shown`` follows ``show`` after SHOW_LATENCY cycles.
    """

    SHOW_LATENCY = 4

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
        turn = Signal(range(COUNTER_SLOTS))
        s0_addr = Signal(range(depth), reset_less=True)
        s1_addr, s2_addr = delayed(m, s0_addr, 1, reset=False), delayed(m, s0_addr, 2, reset=False)
        s1_valid, s2_valid = Signal(), Signal()
        s2_total = Signal(TOTAL_WIDTH, reset_less=True)

        clear = Signal(init=1)  # registered like the counts, which come from far away; also their reset
        m.d.sync += clear.eq(self.clear)
        phase = delayed(m, self.phase, 1)  # registered like the counts
        addr = Signal.like(s0_addr)
        fields = {"place": turn, "phase": phase}
        m.d.comb += addr.eq(Mux(self.show, self.index, Cat(fields[name] for name in IndexLayout.members)))
        place, of_phase = self._split(addr)
        live = self._live(m, clear, place, of_phase == phase)
        again, again2 = delayed(m, addr == s0_addr, 1), delayed(m, addr == s1_addr, 1)  # s0 as s1, as s2
        begun = self._begun(m, clear, s1_valid, s1_addr, place, of_phase)
        s1_begun = delayed(m, (begun | again & s1_valid | again2 & s2_valid) & ~clear, 1)
        s1_amount = delayed(m, Mux(clear, 0, live), 1, reset=False)
        s2_amount = delayed(m, s1_amount, 1, reset=False)
        m.d.comb += [
            read.addr.eq(s0_addr), write.en.eq(s2_valid & ~clear), write.addr.eq(s2_addr),
            write.data.eq(s2_total + s2_amount),
        ]  # fmt: skip
        m.d.sync += [
            s0_addr.eq(addr), s1_valid.eq(~clear), s2_valid.eq(s1_valid & ~clear),
            s2_total.eq(Mux(s1_begun, Mux(s2_valid & delayed(m, again, 1), write.data, read.data), 0)),
        ]  # fmt: skip
        with m.If(delayed(m, self.show, self.SHOW_LATENCY - 1)):
            m.d.sync += self.shown.eq(write.data)
        with m.If(~self.show):
            m.d.sync += turn.eq(turn + 1)
        return m

    @staticmethod
    def _split(addr):
        """Place and phase of a counter's number."""
        index = data.View(IndexLayout, addr)
        return index.place, index.phase

    def _live(self, m, clear, place, current):
        """Count since the counter at ``place`` was last taken; it is taken now.

        ``place`` and ``current`` (it is a counter of the current phase) are those of the cycle before.
        """
        chosen = []
        for i, (name, _) in enumerate(COUNTERS):
            count = delayed(m, self.counts[name], 1, reset=False)
            live = Signal(len(count) + exact_log2(FLUSH_CYCLES), name=f"live_{name}", reset_less=True)
            taken = delayed(m, current & (place == i), 1)
            m.d.sync += live.eq(Mux(taken, 0, live) + count)
            with m.If(clear):
                m.d.sync += live.eq(0)
            chosen.append(Mux(taken, live, 0))
        return reduce(or_, chosen)

    def _begun(self, m, clear, valid, valid_addr, place, phase):
        """True if the total at ``place`` and ``phase`` of the cycle before has been written since the last clear.

        Otherwise the total is 0, whatever the memory holds.
        """
        begun = Signal(N_PHASES * COUNTER_SLOTS, reset_less=True)
        m.d.sync += begun.eq(begun | (valid << valid_addr))
        with m.If(clear):
            m.d.sync += begun.eq(0)
        found = Cat(begun.word_select(i, COUNTER_SLOTS).bit_select(place, 1) for i in range(N_PHASES))
        found = delayed(m, Mux(clear, 0, found), 1)
        return found.bit_select(delayed(m, phase, 1), 1)
