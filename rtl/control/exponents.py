"""Exponents of all tensors: the committed table, and its adjustment from the batch's results."""

from amaranth import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.numerics import EXP_MAX, EXP_MIN, HEADROOM_BITS, ZERO_STEP
from ..lib.delay import delayed
from ..lib.interfaces import register_layout
from ..lib.table import Burst, Table
from .shadow import Shadow, result_ports

__all__ = ["Adjust", "ExponentAdjust", "ExponentLookup", "Exponents", "exponent_layout", "operands"]

SMOOTHING = 3
"""A layer's scale moves 2^-SMOOTHING of the way to the last batch's own."""


def operands(config: Config) -> tuple[str, ...]:
    """Operands of a command that have exponents, in the order of their lookup."""
    return ("a", "b", "c", "out", *(("d", "scale") if config.predicts else ()))


def exponent_layout(config: Config) -> data.StructLayout:
    """A tensor's entry, as register EXPONENT holds it; a scale has its ``fraction`` in the bits of ``next``."""
    return register_layout("EXPONENT", "cur", "next", "has_next", *["is_scale"] * config.predicts)


class Adjust(enum.Enum, shape=2):
    """Kinds of adjustment of the entries; all clear the shadows of the entries that they visit."""

    CLEAR = 0
    """All entries stay; only the shadows are cleared."""
    COMMIT = 1
    """Entries follow the batch's results, as COMMIT asks: all but the last ones, of which ``out`` is the number."""
    TRIAL = 2
    """Entries of the tensors that a command in calibration tracks: they follow the dry run's results."""


class ExponentLookup(wiring.Signature):
    """Lookups of :class:`Exponents`, seen from the block that asks for them."""

    def __init__(self, config: Config):
        super().__init__({
            "ids": Out(data.StructLayout({operand: range(config.n_tensors) for operand in operands(config)})),
            "start": Out(1), "done": In(1),
            "found": In(data.ArrayLayout(exponent_layout(config), len(operands(config)))),
        })  # fmt: skip


class ExponentAdjust(wiring.Signature):
    """Adjustments of :class:`Exponents`, seen from the block that asks for them."""

    def __init__(self, config: Config):
        super().__init__({
            "start": Out(1), "how": Out(Adjust), "done": In(1),
            "out": Out(range(config.n_tensors)), "track_out": Out(1),
            "b": Out(range(config.n_tensors)), "track_b": Out(1),
            **({"d": Out(range(config.n_tensors)), "track_d": Out(1)} if config.predicts else {}),
        })  # fmt: skip


class Exponents(wiring.Component):
    """Table and shadow of the exponents of all tensors; ``docs/machine.md`` has the rule.

    Parameters
    ----------
    config : Config
        ``n_tensors`` is the number of entries

    Members
    -------
    index, show, shown, set, value
        the host's side; see :class:`.table.Table`
    lookup : In(ExponentLookup(config))
        ``start`` reads the entries of ``ids``, in the order of :func:`operands`; only while nothing else runs.
        ``found`` holds them from the pulse of ``done`` to the next lookup
    adjust : In(ExponentAdjust(config))
        ``start`` adjusts as ``how`` says, once all results that came before are entered; only while nothing else runs.
        TRIAL adjusts tensor ``out`` if ``track_out``, then ``b`` if ``track_b``, then ``d`` (where there are scales) if
        ``track_d``. COMMIT leaves the last ``out`` tensors as they are, results included. All these must stay until
        the pulse of ``done``
    SOURCE_result, SOURCE_result_valid
        results' maxima; see :class:`.shadow.Shadow`

    Timing
    ------
    A lookup takes ``lookup_latency`` cycles, one more for each cycle with ``show``. An adjustment takes one cycle for
    each entry that it visits and a few more.
    """

    def __init__(self, config: Config):
        self.config = config
        self.lookup_latency = len(operands(config)) + Burst.BURST_LATENCY
        self.layout = exponent_layout(config)
        super().__init__({
            "index": In(range(config.n_tensors)), "show": In(1), "shown": Out(self.layout),
            "set": In(1), "value": In(self.layout),
            "lookup": In(ExponentLookup(config)), "adjust": In(ExponentAdjust(config)),
            **result_ports(config),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Table(self.layout, self.config.n_tensors)
        m.submodules.burst = burst = Burst(self.layout, len(operands(self.config)))
        m.submodules.shadow = shadow = Shadow(self.config)
        walking, walk_addr = self._walk(m, table, shadow)
        ids = [self.lookup.ids[operand] for operand in operands(self.config)]
        asked = Signal.like(ids[0], reset_less=True)  # the burst's, registered as the memory's path is long
        with m.If(burst.start):
            m.d.sync += asked.eq(ids[0])
        with m.Elif(table.ready):
            m.d.sync += asked.eq(Array([*ids[1:], ids[0]])[burst.position])
        m.d.comb += [
            table.index.eq(self.index), table.show.eq(self.show), self.shown.eq(table.shown),
            table.set.eq(self.set), table.value.eq(self.value),
            table.addr.eq(Mux(walking, walk_addr, asked)),
            burst.start.eq(self.lookup.start), burst.ready.eq(table.ready), burst.data.eq(table.data),
            self.lookup.found.eq(burst.found), self.lookup.done.eq(burst.done),
            *(getattr(shadow, name).eq(getattr(self, name)) for name in result_ports(self.config)),
        ]  # fmt: skip
        return m

    def _walk(self, m, table, shadow):
        """Visit the entries to adjust, one per cycle: s0 reads table and shadow, s1 clears the shadow's entry.

        The rule applies in s2 and s3; s4 writes the table.
        """
        n_tensors = self.config.n_tensors
        named = ("out", "b", "d") if self.config.predicts else ("out", "b")
        waiting = Signal()
        walking = Signal()
        s0_step = Signal(range(n_tensors))
        s0_addr = Signal(range(n_tensors))
        s1_valid = Signal()
        s1_step = Signal(range(n_tensors))
        s1_addr = Signal(range(n_tensors))
        done = Signal()
        start, trial = delayed(m, self.adjust.start, 1), delayed(m, self.adjust.how == Adjust.TRIAL, 1)
        last_step = Signal(range(n_tensors))
        left_out = Mux(self.adjust.how == Adjust.COMMIT, self.adjust.out, 0)
        m.d.sync += last_step.eq(Mux(self.adjust.how == Adjust.TRIAL, len(named) - 1, n_tensors - 1 - left_out))
        last = s0_step == last_step
        following = Signal(range(n_tensors))  # address of the entry that s0 reads next

        def of_named(step, values):
            *others, value = values
            for place, other in reversed([*enumerate(others)]):
                value = Mux(step == place, other, value)
            return value

        first, *later = (getattr(self.adjust, name) for name in named)
        with m.If(waiting | (walking & table.ready)):
            m.d.comb += following.eq(Mux(waiting, 0, s0_step + 1))
            tried = Mux(waiting, first, of_named(s0_step, later))
            m.d.sync += [s0_step.eq(following), s0_addr.eq(Mux(trial, tried, following))]
        m.d.sync += done.eq(0)
        with m.If(start):
            m.d.sync += waiting.eq(1)
        with m.Elif(waiting & shadow.settled):
            m.d.sync += [waiting.eq(0), walking.eq(1)]
        with m.Elif(walking & table.ready):
            m.d.sync += [walking.eq(~last), done.eq(last)]
        m.d.sync += [s1_valid.eq(walking & table.ready), s1_step.eq(s0_step), s1_addr.eq(s0_addr)]

        chosen = ~trial | of_named(s1_step, (getattr(self.adjust, f"track_{name}") for name in named))
        changes = s1_valid & chosen & shadow.entry.seen & (self.adjust.how != Adjust.CLEAR)
        s2_old, s2_seen = delayed(m, table.data, 1), delayed(m, shadow.entry, 1)
        m.d.comb += [
            shadow.addr.eq(s0_addr),
            shadow.clear.eq(s1_valid & chosen),
            table.write.eq(delayed(m, changes, 3)),
            table.write_addr.eq(delayed(m, s1_addr, 3)),
            table.write_data.eq(delayed(m, self._rule(m, s2_old, s2_seen), 1)),
            self.adjust.done.eq(delayed(m, done, 4)),
        ]
        return walking, s0_addr

    def _rule(self, m, old, shadow):
        """The adjusted entry of a tensor that had results, a cycle later."""
        new = Signal(self.layout)
        wanted = Signal(signed(len(shadow.top) + 1))
        exponent = Signal(signed(8))
        m.d.sync += wanted.eq(Mux(
            shadow.nonzero,
            shadow.top + (HEADROOM_BITS - (self.config.operand_width - 1)),
            Mux(old.has_next, old.next, old.cur) - ZERO_STEP,
        ))  # fmt: skip
        kept = delayed(m, old, 1)
        m.d.comb += [exponent.eq(_clamped(wanted)), new.eq(kept)]
        with m.If(~kept.has_next):
            m.d.comb += new.cur.eq(exponent)
        with m.Else():
            m.d.comb += new.next.eq(exponent)
            with m.If(self.adjust.how == Adjust.COMMIT):
                m.d.comb += new.cur.eq(kept.next)
        if self.config.predicts:
            smoothed, nonzero = self._smoothed(m, old, shadow.top), delayed(m, shadow.nonzero, 1)
            with m.If(kept.is_scale):
                m.d.comb += new.eq(kept)
                with m.If(nonzero):
                    m.d.comb += [new.cur.eq(_clamped(smoothed >> 8)), new.next.eq(smoothed[:8].as_signed())]
        return new

    def _smoothed(self, m, old, top):
        """A scale that has moved part of the way to the batch's own, in a trial all of it; a cycle later."""
        smoothed = Signal(signed(len(top) + 9))
        value = Cat(old.next.as_unsigned(), old.cur).as_signed()
        target = Cat(Const(0, 8), top).as_signed()
        m.d.sync += smoothed.eq(Mux(self.adjust.how == Adjust.COMMIT, value + ((target - value) >> SMOOTHING), target))
        return smoothed


def _clamped(exponent):
    return Mux(exponent > EXP_MAX, EXP_MAX, Mux(exponent < EXP_MIN, EXP_MIN, exponent))
