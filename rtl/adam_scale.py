"""What is the same for all weights of an ADAM command: factors and shifts."""

from amaranth import Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..spec.commands import Adam
from ..spec.numerics import UPDATE_GUARD_BITS
from .adam_rate import RateLayout
from .hyper import HyperLayout
from .product import FACTOR_WIDTH
from .update_lane import LOW_BITS, clamped_shift

__all__ = ["ALIGN_LEFT", "ALIGN_RIGHT", "AdamExponentsLayout", "AdamScale", "AdamScaleLayout"]

ALIGN_RIGHT, ALIGN_LEFT = 63, 40
_ROOT_LOW_BITS = 7
_FACTORS = ("m", "g", "s", "square", "rate")
_SHIFTS = ("m", "g", "s", "square", "ratio", "w", "step")

AdamExponentsLayout = data.StructLayout({
    name: signed(8) for name in ("eg", "ew", "ew_next", "em", "em_next", "es", "es_next")
})  # fmt: skip
"""Exponents of gradient, weight, first and second moment (each but the gradient's: now and as written)."""

AdamScaleLayout = data.StructLayout({
    **{f"factor_{name}": FACTOR_WIDTH for name in _FACTORS}, "epsilon": 16,
    **{f"shift_{name}": range(-ALIGN_LEFT, ALIGN_RIGHT + 1) for name in _SHIFTS},
})  # fmt: skip
"""Factors of first moment, gradient, second moment, gradient's square and ratio, the least root (not 0), and shifts
(right positive) of those terms, of the first moment as dividend and of the weight."""


class AdamScale(wiring.Component):
    """``o`` of the exponents (those of a dry command after its rule), table entries and rate of a command.

    ``hyper``: the entries in the order of :class:`adagp.spec.commands.Adam`; ``rate``: what
    :class:`.adam_rate.AdamRate` made of them. ``o`` follows ``LATENCY`` cycles later.
    """

    LATENCY = 2

    def __init__(self):
        super().__init__({
            "exponents": In(AdamExponentsLayout), "hyper": In(data.ArrayLayout(HyperLayout, len(Adam))),
            "rate": In(RateLayout), "o": Out(AdamScaleLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        e, o = self.exponents, self.o
        beta1, rest1, beta2, rest2 = (self.hyper[i] for i in (Adam.BETA1, Adam.REST1, Adam.BETA2, Adam.REST2))
        epsilon = self.hyper[Adam.EPSILON].mantissa
        guard = UPDATE_GUARD_BITS
        aligns = {
            "m": beta1.exponent + e.em - e.em_next + guard,
            "g": rest1.exponent + e.eg - e.em_next + LOW_BITS + guard,
            "s": beta2.exponent + 2 * (e.es - e.es_next) + guard,
            "square": rest2.exponent + 2 * (e.eg - e.es_next) + 2 * _ROOT_LOW_BITS + guard,
            "ratio": e.em_next - e.es_next + _ROOT_LOW_BITS,
            "w": e.ew - e.ew_next + guard,
            "step": self.rate.exponent - e.ew_next + guard,
        }
        for term, value in aligns.items():
            align = Signal(value.shape(), name=f"align_{term}", reset_less=True)
            m.d.sync += [align.eq(value), o[f"shift_{term}"].eq(clamped_shift(align))]
        m.d.sync += [
            o.factor_m.eq(beta1.mantissa), o.factor_g.eq(rest1.mantissa), o.factor_s.eq(beta2.mantissa),
            o.factor_square.eq(rest2.mantissa), o.factor_rate.eq(self.rate.mantissa),
            o.epsilon.eq(epsilon | (epsilon == 0)),
        ]  # fmt: skip
        return m
