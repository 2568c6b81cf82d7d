"""Update lane: one weight a cycle through SGD with momentum and weight decay."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from ..spec.numerics import UPDATE_GUARD_BITS, operand_max, unpredicted
from .delay import delayed
from .requantise import Requantise, RoundShift

__all__ = [
    "LOW_BITS", "ROUNDED_WIDTH", "ScaleLayout", "UpdateLane", "clamped_shift", "lane_scale", "most_saturations",
]  # fmt: skip

LOW_BITS = 16
"""Bits that a master weight (and a momentum) has below an operand's LSB."""

_FACTOR_WIDTH = 16
_MOMENTUM_WIDTH = 32
_ALIGN_WIDTH = 56
_ALIGN_RIGHT, _ALIGN_LEFT = 63, 40

ROUNDED_WIDTH = _ALIGN_WIDTH + 2 - UPDATE_GUARD_BITS
"""Width of a new momentum or weight before it saturates."""


def ScaleLayout(config: Config) -> data.StructLayout:
    """What is the same for all weights of a command: factors and shifts (right positive) of momentum,
    gradient, decay, weight and learning-rate term; where gradients are predicted, also of a momentum that is kept.
    """
    terms = ("v", "g", "d", "w", "l", *["k"] * config.predicts)
    return data.StructLayout({
        "mm": _FACTOR_WIDTH, "md": _FACTOR_WIDTH, "ml": _FACTOR_WIDTH,
        **{f"shift_{term}": range(-_ALIGN_LEFT, _ALIGN_RIGHT + 1) for term in terms},
    })  # fmt: skip


def clamped_shift(align):
    """The right shift, within range, that docs/machine.md calls ``align(x, align)``."""
    return Mux(align > _ALIGN_LEFT, -_ALIGN_LEFT, Mux(align < -_ALIGN_RIGHT, _ALIGN_RIGHT, -align))


def most_saturations(config: Config) -> int:
    """Results of the update unit that may saturate in a cycle: two of each lane, or three of the Adam lane."""
    return max(2 * config.update_lanes, 3 * config.predicts)


def lane_scale(m, config: Config, task):
    """Factors and shifts of the command, two cycles after ``task``."""
    scale = Signal(ScaleLayout(config))
    guard = UPDATE_GUARD_BITS
    aligns = {
        "v": task.xm + task.ev - task.ev_next + guard,
        "g": task.eg - task.ev_next + LOW_BITS + guard,
        "d": task.xd + task.ew - task.ev_next + guard,
        "w": task.ew - task.ew_next + guard,
        "l": task.xl + task.ev_next - task.ew_next + guard,
    }
    if config.predicts:
        aligns["k"] = task.ev - task.ev_next + guard
    for term, value in aligns.items():
        align = Signal(value.shape(), name=f"align_{term}")
        m.d.sync += [align.eq(value), scale[f"shift_{term}"].eq(clamped_shift(align))]
    m.d.sync += [scale.mm.eq(task.mm), scale.md.eq(task.md), scale.ml.eq(task.ml)]
    return scale


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
    with ``w_magnitude`` and ``w_saturated``; ``v_magnitude`` and ``v_saturated`` ``V_LATENCY`` cycles later. Where
    gradients are predicted, one that says that there is none leaves momentum and weight as they are.
    """

    V_LATENCY = _Product.LATENCY + Requantise.LATENCY + RoundShift.LATENCY + 3
    LATENCY = V_LATENCY + _Product.LATENCY + Requantise.LATENCY + RoundShift.LATENCY + 2

    def __init__(self, config: Config):
        self._operand_width = config.operand_width
        self._predicts = config.predicts
        operand, low, momentum = signed(config.operand_width), signed(LOW_BITS), signed(_MOMENTUM_WIDTH)
        super().__init__({
            "scale": In(ScaleLayout(config)), "g": In(operand), "hi": In(operand), "lo": In(low), "v": In(momentum),
            "o_hi": Out(operand), "o_lo": Out(low), "o_v": Out(momentum),
            "v_magnitude": Out(ROUNDED_WIDTH), "v_saturated": Out(1),
            "w_magnitude": Out(ROUNDED_WIDTH), "w_saturated": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        scale, g = self._kept(m) if self._predicts else (self.scale, self.g)
        w = Signal(signed(self._operand_width + LOW_BITS))
        m.d.comb += w.eq((self.hi << LOW_BITS) + self.lo)

        momentum = self._aligned(m, "momentum", self._product(m, "momentum", scale.mm, self.v), scale.shift_v)
        decay = self._aligned(m, "decay", self._product(m, "decay", scale.md, w), scale.shift_d)
        gradient = self._aligned(m, "gradient", delayed(m, g, _Product.LATENCY), scale.shift_g)
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

    def _kept(self, m):
        """Scale and gradient of each weight: without a gradient, one time the momentum is all that there is.

        Each field of the scale is that of the weight which uses it in this cycle.
        """
        none = Signal()
        scale, shift_v = Signal.like(self.scale), Signal.like(self.scale.shift_v)
        m.d.comb += [
            none.eq(self.g == unpredicted(self._operand_width)),
            scale.eq(self.scale), scale.shift_v.eq(shift_v),
            scale.mm.eq(Mux(none, 1, self.scale.mm)), scale.md.eq(Mux(none, 0, self.scale.md)),
            scale.ml.eq(Mux(delayed(m, none, self.V_LATENCY), 0, self.scale.ml)),
        ]  # fmt: skip
        m.d.sync += shift_v.eq(Mux(delayed(m, none, _Product.LATENCY - 1), self.scale.shift_k, self.scale.shift_v))
        return scale, Mux(none, 0, self.g)

    def _product(self, m, name, factor, value):
        m.submodules[f"product_{name}"] = product = _Product(len(value))
        m.d.comb += [product.factor.eq(factor), product.i.eq(value)]
        return product.o

    def _aligned(self, m, name, value, shift):
        m.submodules[f"align_{name}"] = align = Requantise(len(value), _ALIGN_WIDTH, -_ALIGN_LEFT, _ALIGN_RIGHT)
        m.d.comb += [align.i.eq(value), align.shift.eq(shift)]
        return align.o

    def _rounded(self, m, name, value):
        """Drop the guard bits."""
        m.submodules[f"round_{name}"] = rounder = RoundShift(len(value), UPDATE_GUARD_BITS)
        m.d.comb += rounder.i.eq(value)
        return rounder.o

    def _saturate(self, m, value, limit, o, magnitude, saturated):
        """The last stage of each half: ``value`` limited, its magnitude before that, and whether they differ."""
        above, below = value > limit, value < -limit
        m.d.sync += [
            o.eq(Mux(above, limit, Mux(below, -limit, value))),
            magnitude.eq(Mux(value < 0, -value, value)),
            saturated.eq(above | below),
        ]
