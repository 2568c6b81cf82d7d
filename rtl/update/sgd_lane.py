"""SGD lane: one weight a cycle through SGD with momentum and weight decay."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.numerics import UPDATE_GUARD_BITS, operand_max, unpredicted
from ..lib.delay import delayed
from ..lib.product import FACTOR_WIDTH, Product
from ..lib.requantise import Requantise
from .rounder import Rounder

__all__ = [
    "ALIGN_LEFT", "ALIGN_RIGHT", "ALIGN_WIDTH", "LOW_BITS", "MOMENTUM_WIDTH", "ROUNDED_WIDTH", "SHIFTS", "ScaleLayout",
    "SgdLane", "clamped_shift", "lane_scale", "most_saturations", "weight_halves", "weight_max",
]  # fmt: skip

LOW_BITS = 16
"""Bits that a master weight (and a momentum) has below an operand's LSB."""

MOMENTUM_WIDTH = 32
"""Bits of a momentum."""

ALIGN_WIDTH = 56
"""Width of a term of an update, with UPDATE_GUARD_BITS below its result's LSB; there it saturates."""
ALIGN_RIGHT, ALIGN_LEFT = 63, 40
SHIFTS = range(-ALIGN_LEFT, ALIGN_RIGHT + 1)
"""Shifts of terms (positive to the right)."""

ROUNDED_WIDTH = ALIGN_WIDTH + 2 - UPDATE_GUARD_BITS
"""Width of a new momentum or weight before it saturates."""


def ScaleLayout(config: Config) -> data.StructLayout:
    """Values shared by all weights of a command: factors, and shifts (positive to the right), of momentum, gradient,
    decay, weight and learning-rate term; where gradients are predicted, also of a momentum that is kept, whose factor
    ``mk`` is 1, or 0 if there is none.
    """
    terms = ("v", "g", "d", "w", "l", *["k"] * config.predicts)
    return data.StructLayout({
        "mm": FACTOR_WIDTH, "md": FACTOR_WIDTH, "ml": FACTOR_WIDTH,
        **{f"shift_{term}": SHIFTS for term in terms}, **({"mk": 1} if config.predicts else {}),
    })  # fmt: skip


def clamped_shift(align):
    """The right shift, within range, that docs/machine.md calls ``align(x, align)``."""
    return Mux(align > ALIGN_LEFT, -ALIGN_LEFT, Mux(align < -ALIGN_RIGHT, ALIGN_RIGHT, -align))


def most_saturations(config: Config) -> int:
    """Results of the update unit that may saturate in a cycle."""
    return 2 * config.update_lanes


def weight_max(operand_width: int) -> int:
    """Limit at which a master weight saturates: its upper half, rounded, is still an operand."""
    return (operand_max(operand_width) << LOW_BITS) + operand_max(LOW_BITS)


def weight_halves(w, hi, lo):
    """Assign a master weight to its halves; ``lo`` counts as negative if its sign bit is set."""
    return hi.eq((w >> LOW_BITS) + w[LOW_BITS - 1]), lo.eq(w[:LOW_BITS].as_signed())


def lane_scale(m, config: Config, task):
    """Factors and shifts of the command, two cycles after ``task``."""
    scale = Signal(ScaleLayout(config), reset_less=True)
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
        align = Signal(value.shape(), name=f"align_{term}", reset_less=True)
        m.d.sync += [align.eq(value), scale[f"shift_{term}"].eq(clamped_shift(align))]
    if config.predicts:
        m.d.sync += scale.mk.eq(~task.keep)
    mm = Mux(task.keep, 0, task.mm) if config.predicts else task.mm
    m.d.sync += [scale.mm.eq(mm), scale.md.eq(task.md), scale.ml.eq(task.ml)]
    return scale


class SgdLane(wiring.Component):
    """Computes docs/machine.md's UPDATE for one weight a cycle.

    Where gradients are predicted, the mark of no gradient leaves momentum and weight as they are.

    Members
    -------
    scale : In(ScaleLayout(config))
        the command's factors and shifts; stands still
    g, hi, lo, v : In
        gradient, halves of the weight, momentum
    o_hi, o_lo, o_v : Out
        the new weight and momentum
    v_magnitude, v_saturated : Out
        magnitude of the new momentum before it saturates, and a flag that it does; ``V_LATENCY`` cycles after the
        operands
    w_magnitude, w_saturated : Out
        the same of the new weight, together with it

    Timing
    ------
    Free-running: a new weight follows ``LATENCY`` cycles after its operands, one a cycle.
    """

    V_LATENCY = Product.LATENCY + Requantise.LATENCY + 2 + Rounder.LATENCY
    LATENCY = V_LATENCY + Product.LATENCY + Requantise.LATENCY + 1 + Rounder.LATENCY

    def __init__(self, config: Config):
        self._operand_width = config.operand_width
        self._predicts = config.predicts
        operand, low, momentum = signed(config.operand_width), signed(LOW_BITS), signed(MOMENTUM_WIDTH)
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
        gradient = self._aligned(m, "gradient", delayed(m, g, Product.LATENCY, reset=False), scale.shift_g)
        pair = Signal(signed(ALIGN_WIDTH + 1), reset_less=True)
        total = Signal(signed(ALIGN_WIDTH + 2), reset_less=True)
        m.d.sync += [pair.eq(momentum + decay), total.eq(pair + delayed(m, gradient, 1, reset=False))]
        v = self._rounded(m, "v", total, operand_max(MOMENTUM_WIDTH))

        step = self._aligned(m, "step", self._product(m, "step", scale.ml, v), scale.shift_l)
        old = self._aligned(m, "old", delayed(m, w, self.V_LATENCY + Product.LATENCY, reset=False), scale.shift_w)
        change = Signal(signed(ALIGN_WIDTH + 1), reset_less=True)
        m.d.sync += change.eq(old - step)
        new = self._rounded(m, "w", change, weight_max(self._operand_width))
        m.d.comb += weight_halves(new, self.o_hi, self.o_lo)
        m.d.comb += self.o_v.eq(delayed(m, v, self.LATENCY - self.V_LATENCY, reset=False))
        return m

    def _kept(self, m):
        """Scale and gradient of each weight; without a gradient, the result is the momentum times one.

        Each field of the scale belongs to the weight that uses it in this cycle.
        """
        none = Signal()
        scale, shift_v = Signal.like(self.scale), Signal.like(self.scale.shift_v)
        m.d.comb += [
            none.eq(self.g == unpredicted(self._operand_width)),
            scale.eq(self.scale), scale.shift_v.eq(shift_v),
            scale.mm.eq(Mux(none, self.scale.mk, self.scale.mm)), scale.md.eq(Mux(none, 0, self.scale.md)),
            scale.ml.eq(Mux(delayed(m, none, self.V_LATENCY), 0, self.scale.ml)),
        ]  # fmt: skip
        m.d.sync += shift_v.eq(Mux(delayed(m, none, Product.LATENCY - 1), self.scale.shift_k, self.scale.shift_v))
        return scale, Mux(none, 0, self.g)

    def _product(self, m, name, factor, value):
        m.submodules[f"product_{name}"] = product = Product(value.shape())
        m.d.comb += [product.factor.eq(factor), product.i.eq(value)]
        return product.o

    def _aligned(self, m, name, value, shift):
        m.submodules[f"align_{name}"] = align = Requantise(len(value), ALIGN_WIDTH, -ALIGN_LEFT, ALIGN_RIGHT)
        m.d.comb += [align.i.eq(value), align.shift.eq(shift)]
        return align.o

    def _rounded(self, m, name, value, limit):
        """The new momentum or weight within its limit."""
        m.submodules[f"round_{name}"] = rounded = Rounder(len(value), limit)
        m.d.comb += [
            rounded.i.eq(value), getattr(self, f"{name}_magnitude").eq(rounded.magnitude),
            getattr(self, f"{name}_saturated").eq(rounded.saturated),
        ]  # fmt: skip
        return rounded.o
