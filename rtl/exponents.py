"""Exponents of all tensors: the committed table, and its adjustment from the batch's results."""

from amaranth import Array, Module, Mux, Signal, signed
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from ..spec.numerics import EXP_MAX, EXP_MIN, HEADROOM_BITS, ZERO_STEP
from .interfaces import ResultLayout
from .shadow import Shadow
from .table import Burst, Table

__all__ = ["OPERANDS", "Adjust", "ExponentAdjust", "ExponentLayout", "ExponentLookup", "Exponents"]

OPERANDS = ("a", "b", "c", "out")
"""The operands of a command, in the order their exponents are looked up."""

ExponentLayout = data.StructLayout({"cur": signed(8), "next": signed(8), "has_next": 1})
"""A tensor's entry, laid out as the EXPONENT register shows it."""


class Adjust(enum.Enum, shape=2):
    """What becomes of the entries and of their shadows, which are cleared in any case."""

    CLEAR = 0
    """All entries: nothing else."""
    COMMIT = 1
    """All entries: COMMIT."""
    TRIAL = 2
    """The tensors a command in calibration tracks: their exponents follow the dry run's results."""


class ExponentLookup(wiring.Signature):
    """Lookups of :class:`Exponents`, seen from who asks for them."""

    def __init__(self, config: Config):
        super().__init__({
            "ids": Out(data.StructLayout({operand: range(config.n_tensors) for operand in OPERANDS})),
            "start": Out(1), "done": In(1), "found": In(data.ArrayLayout(ExponentLayout, len(OPERANDS))),
        })  # fmt: skip


class ExponentAdjust(wiring.Signature):
    """Adjustments of :class:`Exponents`, seen from who asks for them."""

    def __init__(self, config: Config):
        super().__init__({
            "start": Out(1), "how": Out(Adjust), "done": In(1),
            "out": Out(range(config.n_tensors)), "track_out": Out(1),
            "b": Out(range(config.n_tensors)), "track_b": Out(1),
        })  # fmt: skip


class Exponents(wiring.Component):
    """Table and shadow of ``config.n_tensors`` exponents; the rule is in ``docs/machine.md``.

    ``lookup.start`` (only while nothing else runs) reads the entries of ``ids``, in the order of
    ``OPERANDS``; ``found`` holds them from the pulse of ``done`` on, ``LOOKUP_LATENCY`` cycles later (one
    more for each cycle with ``show``), until the next lookup.

    ``adjust.start`` (only while nothing else runs) does what ``how`` says, once all results that came in
    before are entered; ``done`` pulses at its end, after one cycle for each entry and a few more. TRIAL
    adjusts tensor ``out`` if ``track_out``, then ``b`` if ``track_b``. All these must stay until ``done``.

    Results: see :class:`.shadow.Shadow`. Host side: see :class:`.table.Table`.
    """

    LOOKUP_LATENCY = len(OPERANDS) + Burst.BURST_LATENCY

    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "index": In(range(config.n_tensors)), "show": In(1), "shown": Out(ExponentLayout),
            "set": In(1), "value": In(ExponentLayout),
            "lookup": In(ExponentLookup(config)), "adjust": In(ExponentAdjust(config)),
            "drain_result_valid": In(1), "drain_result": In(ResultLayout),
            "update_result_valid": In(1), "update_result": In(ResultLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Table(ExponentLayout, self.config.n_tensors)
        m.submodules.burst = burst = Burst(ExponentLayout, len(OPERANDS))
        m.submodules.shadow = shadow = Shadow(self.config)
        walking, walk_addr = self._walk(m, table, shadow)
        ids = Array(self.lookup.ids[operand] for operand in OPERANDS)
        m.d.comb += [
            table.index.eq(self.index), table.show.eq(self.show), self.shown.eq(table.shown),
            table.set.eq(self.set), table.value.eq(self.value),
            table.addr.eq(Mux(walking, walk_addr, ids[burst.position])),
            burst.start.eq(self.lookup.start), burst.ready.eq(table.ready), burst.data.eq(table.data),
            self.lookup.found.eq(burst.found), self.lookup.done.eq(burst.done),
            shadow.drain_result_valid.eq(self.drain_result_valid), shadow.drain_result.eq(self.drain_result),
            shadow.update_result_valid.eq(self.update_result_valid), shadow.update_result.eq(self.update_result),
        ]  # fmt: skip
        return m

    def _walk(self, m, table, shadow):
        """Visit the entries to adjust, one per cycle: s0 reads table and shadow, s1 writes them."""
        n_tensors = self.config.n_tensors
        waiting = Signal()
        walking = Signal()
        s0_step = Signal(range(n_tensors))
        s0_addr = Signal(range(n_tensors))
        s1_valid = Signal()
        s1_step = Signal(range(n_tensors))
        s1_addr = Signal(range(n_tensors))
        trial = self.adjust.how == Adjust.TRIAL
        last = s0_step == Mux(trial, 1, n_tensors - 1)

        m.d.comb += s0_addr.eq(Mux(trial, Mux(s0_step == 0, self.adjust.out, self.adjust.b), s0_step))
        m.d.sync += self.adjust.done.eq(0)
        with m.If(self.adjust.start):
            m.d.sync += waiting.eq(1)
        with m.Elif(waiting & shadow.settled):
            m.d.sync += [waiting.eq(0), walking.eq(1), s0_step.eq(0)]
        with m.Elif(walking & table.ready):
            m.d.sync += [s0_step.eq(s0_step + 1), walking.eq(~last), self.adjust.done.eq(last)]
        m.d.sync += [s1_valid.eq(walking & table.ready), s1_step.eq(s0_step), s1_addr.eq(s0_addr)]

        chosen = ~trial | Mux(s1_step == 0, self.adjust.track_out, self.adjust.track_b)
        m.d.comb += [
            shadow.addr.eq(s0_addr),
            shadow.clear.eq(s1_valid & chosen),
            table.write.eq(s1_valid & chosen & shadow.entry.seen & (self.adjust.how != Adjust.CLEAR)),
            table.write_addr.eq(s1_addr),
            table.write_data.eq(self._rule(m, table.data, shadow.entry)),
        ]
        return walking, s0_addr

    def _rule(self, m, old, shadow):
        """The adjusted entry of a tensor that was seen."""
        new = Signal(ExponentLayout)
        wanted = Signal(signed(len(shadow.top) + 1))
        exponent = Signal(signed(8))
        m.d.comb += [
            wanted.eq(Mux(
                shadow.nonzero,
                shadow.top + (HEADROOM_BITS - (self.config.operand_width - 1)),
                Mux(old.has_next, old.next, old.cur) - ZERO_STEP,
            )),
            exponent.eq(Mux(wanted > EXP_MAX, EXP_MAX, Mux(wanted < EXP_MIN, EXP_MIN, wanted))),
            new.eq(old),
        ]  # fmt: skip
        with m.If(~old.has_next):
            m.d.comb += new.cur.eq(exponent)
        with m.Else():
            m.d.comb += new.next.eq(exponent)
            with m.If(self.adjust.how == Adjust.COMMIT):
                m.d.comb += new.cur.eq(old.next)
        return new
