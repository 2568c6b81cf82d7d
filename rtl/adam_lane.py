"""Adam lane: one weight a cycle through Adam."""

from amaranth import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from ..spec.numerics import UPDATE_GUARD_BITS, operand_max
from .adam_scale import ALIGN_LEFT, ALIGN_RIGHT, AdamScaleLayout
from .delay import delayed
from .delay_line import DelayLine
from .divide import Divide
from .product import Product
from .requantise import Requantise, RoundShift
from .root import Root
from .update_lane import LOW_BITS, ROUNDED_WIDTH

__all__ = ["FIRST_WIDTH", "SECOND_WIDTH", "AdamLane"]

FIRST_WIDTH, SECOND_WIDTH = 32, 44
"""Width of a first moment, signed, and of a second, unsigned."""

_ALIGN_WIDTH = 56
_ROOT_WIDTH = SECOND_WIDTH // 2
_RATIO_WIDTH = 23
"""Width of a first moment over a root, and that is where it saturates."""
_DIVIDEND_WIDTH = _ROOT_WIDTH + _RATIO_WIDTH
"""Any root of a wider one leaves a saturated ratio."""


class AdamLane(wiring.Component):
    """golden/adam.py for one weight, free-running; ``scale`` stands still meanwhile.

    ``g``, ``hi``, ``lo``, ``m``, ``s`` go in together; everything comes out ``LATENCY`` cycles later. Of magnitudes
    only the bit length is what it says: ``m_magnitude``'s and ``w_magnitude``'s that of the new value before it
    saturates, ``s_magnitude``'s that of its root.
    """

    MOMENT_LATENCY = 2 + Product.LATENCY + Requantise.LATENCY + RoundShift.LATENCY + 3
    RATIO_LATENCY = MOMENT_LATENCY + _ROOT_WIDTH + 1 + _RATIO_WIDTH + 1
    LATENCY = RATIO_LATENCY + Product.LATENCY + Requantise.LATENCY + RoundShift.LATENCY + 2

    def __init__(self, config: Config):
        self._operand_width = config.operand_width
        operand, low, first = signed(config.operand_width), signed(LOW_BITS), signed(FIRST_WIDTH)
        super().__init__({
            "scale": In(AdamScaleLayout),
            "g": In(operand), "hi": In(operand), "lo": In(low), "m": In(first), "s": In(SECOND_WIDTH),
            "o_hi": Out(operand), "o_lo": Out(low), "o_m": Out(first), "o_s": Out(SECOND_WIDTH),
            "w_magnitude": Out(ROUNDED_WIDTH), "w_saturated": Out(1),
            "m_magnitude": Out(ROUNDED_WIDTH - 1), "m_saturated": Out(1),
            "s_magnitude": Out(ROUNDED_WIDTH // 2), "s_saturated": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        (first, first_over, negative), (second, second_over) = self._moments(m)
        self._kept(m, first, first_over, negative, second, second_over)

        scale = self.scale
        m.submodules.root = root = Root(SECOND_WIDTH)
        floored = Signal(_ROOT_WIDTH, reset_less=True)
        m.d.comb += root.i.eq(second)
        m.d.sync += floored.eq(Mux(root.o > scale.epsilon, root.o, scale.epsilon))
        waiting = self._line(m, "first", Cat(first, negative), root.latency + 1 - Requantise.LATENCY)
        dividend = self._aligned(m, "dividend", waiting[:-1], scale.shift_ratio, _DIVIDEND_WIDTH + 1)
        m.submodules.divide = divide = Divide(_DIVIDEND_WIDTH, _ROOT_WIDTH, _RATIO_WIDTH)
        m.d.comb += [divide.i.eq(dividend), divide.by.eq(floored)]
        change_latency = Product.LATENCY + Requantise.LATENCY
        up = delayed(m, waiting[-1], Requantise.LATENCY + divide.latency + change_latency)

        step = self._aligned(m, "step", self._product(m, "step", scale.factor_rate, divide.o), scale.shift_step)
        w = Signal(signed(self._operand_width + LOW_BITS))
        m.d.comb += w.eq((self.hi << LOW_BITS) + self.lo)
        w_later = self._line(m, "weight", w, self.RATIO_LATENCY + Product.LATENCY).as_signed()
        old = self._aligned(m, "weight", w_later, scale.shift_w)
        # old + step if the moment is negative, else old - step; the lowest place makes the carry.
        change = Signal(signed(_ALIGN_WIDTH + 2), reset_less=True)
        flip = (~up).replicate(_ALIGN_WIDTH).as_signed()
        m.d.sync += change.eq(Cat(~up, old).as_signed() + Cat(~up, step ^ flip).as_signed())
        self._weight(m, self._rounded(m, "weight", change[1:].as_signed()))
        return m

    def _moments(self, m):
        """New magnitudes, saturated, what is above them, and the first one's sign: ``MOMENT_LATENCY`` cycles later."""
        s1_g, s2_g = Signal.like(self.g, reset_less=True), Signal.like(self.g, reset_less=True)
        s2_square = Signal(2 * self._operand_width - 1, reset_less=True)
        s1_m, s2_m = Signal.like(self.m, reset_less=True), Signal.like(self.m, reset_less=True)
        s1_s, s2_s = Signal.like(self.s, reset_less=True), Signal.like(self.s, reset_less=True)
        m.d.sync += [
            s1_g.eq(self.g), s2_g.eq(s1_g), s2_square.eq(s1_g * s1_g),
            s1_m.eq(self.m), s2_m.eq(s1_m), s1_s.eq(self.s), s2_s.eq(s1_s),
        ]  # fmt: skip
        first = self._sum(m, "first", ("m", s2_m), ("g", s2_g))
        second = self._sum(m, "second", ("s", s2_s), ("square", s2_square))
        negative, s2_negative = Signal(reset_less=True), Signal(reset_less=True)
        magnitude = Signal(ROUNDED_WIDTH - 1, name="first_magnitude", reset_less=True)
        m.d.sync += [negative.eq(first < 0), magnitude.eq(Mux(first < 0, -first, first)), s2_negative.eq(negative)]
        square = Signal(ROUNDED_WIDTH - 1, name="second_magnitude", reset_less=True)
        m.d.sync += square.eq(second)
        return (
            (*self._cut(m, "first", magnitude, FIRST_WIDTH - 1), s2_negative),
            self._cut(m, "second", square, SECOND_WIDTH),
        )

    def _sum(self, m, name, *terms):
        """Rounded sum of two terms, each a value times its factor."""
        values = [
            self._aligned(m, term, self._product(m, term, self.scale[f"factor_{term}"], value),
                          self.scale[f"shift_{term}"])
            for term, value in terms
        ]  # fmt: skip
        total = Signal(signed(_ALIGN_WIDTH + 1), name=f"{name}_sum", reset_less=True)
        m.d.sync += total.eq(values[0] + values[1])
        return self._rounded(m, name, total)

    def _cut(self, m, name, magnitude, width):
        """``magnitude`` saturated to ``width`` bits, and its bits above those."""
        low, above = magnitude[:width], magnitude[width:]
        o = Signal(width, name=f"{name}_cut", reset_less=True)
        o_above = Signal(len(above), name=f"{name}_above", reset_less=True)
        m.d.sync += [o.eq(low | above.any().replicate(width)), o_above.eq(above)]
        return o, o_above

    def _kept(self, m, first, first_over, negative, second, second_over):
        """The moments wait for the weight. Saturated magnitudes are all ones below what they had too much."""
        layout = data.StructLayout({
            "first": len(first), "first_over": len(first_over), "negative": 1,
            "second": len(second), "second_over": len(second_over),
        })  # fmt: skip
        new = Signal(layout)
        m.d.comb += [
            new.first.eq(first), new.first_over.eq(first_over), new.negative.eq(negative),
            new.second.eq(second), new.second_over.eq(second_over),
        ]  # fmt: skip
        kept = data.View(layout, self._line(m, "moments", new, self.LATENCY - self.MOMENT_LATENCY - 1))
        squared = Cat(kept.second, kept.second_over)
        m.d.sync += [
            self.o_m.eq(Mux(kept.negative, -kept.first, kept.first)), self.o_s.eq(kept.second),
            self.m_saturated.eq(kept.first_over.any()), self.s_saturated.eq(kept.second_over.any()),
            self.m_magnitude.eq(Cat(kept.first, kept.first_over)),
            self.s_magnitude.eq(Cat(squared[n : n + 2].any() for n in range(0, len(squared), 2))),
        ]  # fmt: skip

    def _weight(self, m, value):
        """The last stage: the weight saturated, its halves, and its magnitude before that."""
        limit = (operand_max(self._operand_width) << LOW_BITS) + operand_max(LOW_BITS)
        new = Signal(signed(self._operand_width + LOW_BITS), reset_less=True)
        above, below = value > limit, value < -limit
        m.d.sync += [
            new.eq(Mux(above, limit, Mux(below, -limit, value))),
            self.w_magnitude.eq(Mux(value < 0, -value, value)),
            self.w_saturated.eq(above | below),
        ]
        m.d.comb += [
            self.o_lo.eq(new[:LOW_BITS].as_signed()),
            self.o_hi.eq((new >> LOW_BITS) + new[LOW_BITS - 1]),  # lo counts as negative if its sign bit is set
        ]

    def _line(self, m, name, value, cycles):
        """``value``, without its sign, that many cycles later."""
        value = Value.cast(value)
        m.submodules[f"line_{name}"] = line = DelayLine(len(value), cycles)
        m.d.comb += line.i.eq(value)
        return line.o

    def _product(self, m, name, factor, value):
        m.submodules[f"product_{name}"] = product = Product(value.shape())
        m.d.comb += [product.factor.eq(factor), product.i.eq(value)]
        return product.o

    def _aligned(self, m, name, value, shift, width=_ALIGN_WIDTH):
        in_width = len(value) + (not value.shape().signed)
        m.submodules[f"align_{name}"] = align = Requantise(in_width, width, -ALIGN_LEFT, ALIGN_RIGHT)
        m.d.comb += [align.i.eq(value), align.shift.eq(shift)]
        return align.o

    def _rounded(self, m, name, value):
        """Drop the guard bits."""
        m.submodules[f"round_{name}"] = rounder = RoundShift(len(value), UPDATE_GUARD_BITS)
        m.d.comb += rounder.i.eq(value)
        return rounder.o
