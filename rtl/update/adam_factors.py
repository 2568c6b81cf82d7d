"""Factors and shifts of Adam's terms; they are the same for all weights of an ADAM command."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import Adam
from ...spec.numerics import UPDATE_GUARD_BITS
from ..lib.interfaces import HyperLayout
from ..lib.product import FACTOR_WIDTH, Product
from .adam_rate import RateLayout
from .sgd_lane import LOW_BITS, SHIFTS, clamped_shift

__all__ = ["ROOT_LOW_BITS", "AdamExponentsLayout", "AdamScale", "AdamScaleLayout", "Term"]

ROOT_LOW_BITS = 7
"""Bits that the root of a second moment has below an operand's LSB."""


class Term(enum.IntEnum, shape=3):
    """Term that is multiplied and shifted for a weight, one in each cycle, in this order."""

    M = 0
    """The old first moment."""
    G = 1
    S = 2
    """The old second moment."""
    SQUARE = 3
    """The square of the gradient."""
    FIRST = 4
    """The new first moment as dividend."""
    W = 5
    STEP = 6
    """The first moment over the root."""
    NONE = 7


AdamExponentsLayout = data.StructLayout({
    name: signed(8) for name in ("eg", "ew", "ew_next", "em", "em_next", "es", "es_next")
})  # fmt: skip
"""Exponents of gradient, weight, first and second moment (each but the gradient's: now and as written)."""

AdamScaleLayout = data.StructLayout({"factor": FACTOR_WIDTH, "shift": SHIFTS, "epsilon": 16})
"""A term's factor and shift (positive to the right), and the least root (not 0)."""


class AdamScale(wiring.Component):
    """Makes factors and shifts of terms from a command's exponents, table entries and rate.

    Members
    -------
    exponents : In(AdamExponentsLayout)
        the command's; those of a dry command after its rule
    hyper : In(data.ArrayLayout(HyperLayout, len(Adam)))
        table entries, in the order of :class:`adagp.spec.commands.Adam`
    rate : In(RateLayout)
        the learning rate from :class:`.adam_rate.AdamRate`
    term : In(Term)
        the term of this cycle
    o : Out(AdamScaleLayout)
        its factor, at once; its shift, together with the product; the least root

    Timing
    ------
    The shift follows ``Product.LATENCY`` cycles after ``term``, a term every cycle.
    """

    def __init__(self):
        super().__init__({
            "exponents": In(AdamExponentsLayout), "hyper": In(data.ArrayLayout(HyperLayout, len(Adam))),
            "rate": In(RateLayout), "term": In(Term), "o": Out(AdamScaleLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        e, o = self.exponents, self.o
        beta1, rest1, beta2, rest2 = (self.hyper[i] for i in (Adam.BETA1, Adam.REST1, Adam.BETA2, Adam.REST2))
        epsilon = self.hyper[Adam.EPSILON].mantissa
        guard = UPDATE_GUARD_BITS
        terms = {  # factor, low bits, exponents before and after the shift
            Term.M: (beta1, guard, e.em, e.em_next),
            Term.G: (rest1, guard + LOW_BITS, e.eg, e.em_next),
            Term.S: (beta2, guard, e.es, e.es_next),
            Term.SQUARE: (rest2, guard + 2 * ROOT_LOW_BITS, e.eg, e.es_next),
            Term.FIRST: (None, ROOT_LOW_BITS, e.em_next, e.es_next),
            Term.W: (None, guard, e.ew, e.ew_next),
            Term.STEP: (self.rate, guard, 0, e.ew_next),
        }
        own, low = Signal.like(self.rate.exponent), Signal(range(guard + LOW_BITS + 1))
        old, new = Signal(signed(8)), Signal(signed(8))
        squared, s1_squared = Signal(), Signal(reset_less=True)
        m.d.comb += [
            o.epsilon.eq(epsilon | (epsilon == 0)),
            squared.eq(Cat(self.term == term for term in (Term.S, Term.SQUARE)).any()),
        ]
        with m.Switch(self.term):
            for term, (hyper, bits, before, after) in terms.items():
                with m.Case(term):
                    m.d.comb += [low.eq(bits), old.eq(before), new.eq(after), o.factor.eq(1)]
                    if hyper is not None:
                        m.d.comb += [o.factor.eq(hyper.mantissa), own.eq(hyper.exponent)]
        s1_own, s1_apart = Signal(signed(10), reset_less=True), Signal(signed(9), reset_less=True)
        s2_align = Signal(signed(12), reset_less=True)
        s3_shift = Signal(SHIFTS, reset_less=True)
        assert Product.LATENCY == 3
        m.d.sync += [
            s1_own.eq(own + low), s1_apart.eq(old - new), s1_squared.eq(squared),
            s2_align.eq(s1_own + Mux(s1_squared, s1_apart << 1, s1_apart)), s3_shift.eq(clamped_shift(s2_align)),
        ]  # fmt: skip
        m.d.comb += o.shift.eq(s3_shift)
        return m
