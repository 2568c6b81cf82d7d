"""Update lane: one weight a cycle through SGD with momentum and weight decay."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from ..spec.numerics import UPDATE_GUARD_BITS, operand_max
from .delay import delayed
from .requantise import Requantise

__all__ = ["LOW_BITS", "ROUNDED_WIDTH", "ScaleLayout", "UpdateLane", "clamped_shift"]

LOW_BITS = 16
"""Bits that a master weight (and a momentum) has below an operand's LSB."""

_FACTOR_WIDTH = 16
_MOMENTUM_WIDTH = 32
_ALIGN_WIDTH = 56
_ALIGN_RIGHT, _ALIGN_LEFT = 63, 40

ROUNDED_WIDTH = _ALIGN_WIDTH + 2 - UPDATE_GUARD_BITS
"""Width of a new momentum or weight before it saturates."""

ScaleLayout = data.StructLayout({
    "mm": _FACTOR_WIDTH, "md": _FACTOR_WIDTH, "ml": _FACTOR_WIDTH,
    **{f"shift_{term}": range(-_ALIGN_LEFT, _ALIGN_RIGHT + 1) for term in ("v", "g", "d", "w", "l")},
})  # fmt: skip
"""What is the same for all weights of a command: factors and shifts (right positive) of momentum,
gradient, decay, weight and learning-rate term."""


def clamped_shift(align):
    """The right shift, within range, that docs/machine.md calls ``align(x, align)``."""
    return Mux(align > _ALIGN_LEFT, -_ALIGN_LEFT, Mux(align < -_ALIGN_RIGHT, _ALIGN_RIGHT, -align))


class _Product(wiring.Component):
    """``o`` = factor (unsigned) * i (signed), ``LATENCY`` cycles later: two narrow multipliers and an adder."""

    LATENCY = 3

    def __init__(self, width: int):
        super().__init__({
            "factor": In(_FACTOR_WIDTH), "i": In(signed(width)), "o": Out(signed(width + _FACTOR_WIDTH)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        s1_factor = Signal.like(self.factor, reset_less=True)
        s1_i = Signal.like(self.i, reset_less=True)
        low, high = s1_i[:_FACTOR_WIDTH], s1_i[_FACTOR_WIDTH:].as_signed()
        s2_low = Signal(2 * _FACTOR_WIDTH, reset_less=True)
        s2_high = Signal(signed(len(self.o) - _FACTOR_WIDTH), reset_less=True)
        s3_sum = Signal.like(self.o, reset_less=True)
        m.d.sync += [
            s1_factor.eq(self.factor), s1_i.eq(self.i),
            s2_low.eq(low * s1_factor), s2_high.eq(high * s1_factor),
            s3_sum.eq((s2_high << _FACTOR_WIDTH) + s2_low),
        ]  # fmt: skip
        m.d.comb += self.o.eq(s3_sum)
        return m


class UpdateLane(wiring.Component):
    """docs/machine.md's UPDATE of one weight, free-running; ``scale`` stands still meanwhile.

    ``g``, ``hi``, ``lo``, ``v`` go in together. The new ``hi``, ``lo``, ``v`` come out ``LATENCY`` cycles later
    with ``w_magnitude`` and ``w_saturated``; ``v_magnitude`` and ``v_saturated`` ``V_LATENCY`` cycles later.
    """

    V_LATENCY = _Product.LATENCY + 2 * Requantise.LATENCY + 3
    LATENCY = V_LATENCY + _Product.LATENCY + 2 * Requantise.LATENCY + 2

    def __init__(self, config: Config):
        self._operand_width = config.operand_width
        operand, low, momentum = signed(config.operand_width), signed(LOW_BITS), signed(_MOMENTUM_WIDTH)
        super().__init__({
            "scale": In(ScaleLayout), "g": In(operand), "hi": In(operand), "lo": In(low), "v": In(momentum),
            "o_hi": Out(operand), "o_lo": Out(low), "o_v": Out(momentum),
            "v_magnitude": Out(ROUNDED_WIDTH), "v_saturated": Out(1),
            "w_magnitude": Out(ROUNDED_WIDTH), "w_saturated": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        scale = self.scale
        w = Signal(signed(self._operand_width + LOW_BITS))
        m.d.comb += w.eq((self.hi << LOW_BITS) + self.lo)

        momentum = self._aligned(m, "momentum", self._product(m, "momentum", scale.mm, self.v), scale.shift_v)
        decay = self._aligned(m, "decay", self._product(m, "decay", scale.md, w), scale.shift_d)
        gradient = self._aligned(m, "gradient", delayed(m, self.g, _Product.LATENCY), scale.shift_g)
        pair = Signal(signed(_ALIGN_WIDTH + 1), reset_less=True)
        total = Signal(signed(_ALIGN_WIDTH + 2), reset_less=True)
        m.d.sync += [pair.eq(momentum + decay), total.eq(pair + delayed(m, gradient, 1))]
        limit = operand_max(_MOMENTUM_WIDTH)
        v = Signal(signed(_MOMENTUM_WIDTH))
        self._saturate(m, self._rounded(m, "v", total), limit, v, self.v_magnitude, self.v_saturated)

        step = self._aligned(m, "step", self._product(m, "step", scale.ml, v), scale.shift_l)
        old = self._aligned(m, "old", delayed(m, w, self.V_LATENCY + _Product.LATENCY), scale.shift_w)
        change = Signal(signed(_ALIGN_WIDTH + 1), reset_less=True)
        m.d.sync += change.eq(old - step)
        limit = (operand_max(self._operand_width) << LOW_BITS) + operand_max(LOW_BITS)
        new = Signal(signed(self._operand_width + LOW_BITS))
        self._saturate(m, self._rounded(m, "w", change), limit, new, self.w_magnitude, self.w_saturated)
        m.d.comb += [
            self.o_lo.eq(new[:LOW_BITS].as_signed()),
            self.o_hi.eq((new >> LOW_BITS) + new[LOW_BITS - 1]),  # lo counts as negative if its sign bit is set
            self.o_v.eq(delayed(m, v, self.LATENCY - self.V_LATENCY)),
        ]
        return m

    def _product(self, m, name, factor, value):
        m.submodules[f"product_{name}"] = product = _Product(len(value))
        m.d.comb += [product.factor.eq(factor), product.i.eq(value)]
        return product.o

    def _aligned(self, m, name, value, shift):
        m.submodules[f"align_{name}"] = align = Requantise(len(value), _ALIGN_WIDTH, -_ALIGN_LEFT, _ALIGN_RIGHT)
        m.d.comb += [align.i.eq(value), align.shift.eq(shift)]
        return align.o

    def _rounded(self, m, name, value):
        """Drop the guard bits; wide enough not to saturate."""
        m.submodules[f"round_{name}"] = rounder = Requantise(len(value), ROUNDED_WIDTH, -1, UPDATE_GUARD_BITS)
        m.d.comb += [rounder.i.eq(value), rounder.shift.eq(UPDATE_GUARD_BITS)]
        return rounder.o

    def _saturate(self, m, value, limit, o, magnitude, saturated):
        """The last stage of each half: ``value`` limited, its magnitude before that, and whether they differ."""
        above, below = value > limit, value < -limit
        m.d.sync += [
            o.eq(Mux(above, limit, Mux(below, -limit, value))),
            magnitude.eq(Mux(value < 0, -value, value)),
            saturated.eq(above | below),
        ]
