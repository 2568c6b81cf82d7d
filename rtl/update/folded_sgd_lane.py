"""Folded SGD lane: a weight every three cycles through SGD, with one multiplier, two shifters and one rounder."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.numerics import unpredicted
from ..lib.product import Product
from ..lib.requantise import Requantise
from .adam_lane import FactorLayout
from .rounder import Rounder
from .sgd_lane import (  # fmt: skip
    ALIGN_LEFT,
    ALIGN_RIGHT,
    ALIGN_WIDTH,
    LOW_BITS,
    MOMENTUM_WIDTH,
    ROUNDED_WIDTH,
    ScaleLayout,
    SgdLane,
    weight_halves,
    weight_max,
)

__all__ = ["FOLD", "FoldedSgdLane", "lane_type"]

FOLD = 3
"""Cycles for which a weight has each part of the lane."""


class FoldedSgdLane(wiring.Component):
    """Computes what :class:`.sgd_lane.SgdLane` computes, bit for bit, for a weight every ``FOLD`` cycles.

    A weight is taken in slot 0. Slot 1 multiplies its momentum, slot 2 its decay. Then slot 0 multiplies the new
    momentum of an earlier weight by the learning rate. Terms without a factor have a shifter of their own.

    Parameters
    ----------
    config : Config
        decides the operands' width
    lends : bool
        multiplier and shifter can be lent to an :class:`.adam_lane.AdamLane`

    Members
    -------
    slots : In(FOLD)
        a bit for each slot; they are high in turns
    scale, g, hi, lo, v : In
        as those of an SGD lane; a weight is taken in slot 0
    o_hi, o_lo, o_v, v_magnitude, v_saturated, w_magnitude, w_saturated : Out
        as those of an SGD lane; both magnitudes are the present result's
    lent, asks, aligned : In(1), In(FactorLayout), Out(signed(ALIGN_WIDTH))
        multiplier and shifter are lent, to these terms; what they make of them; only with ``lends``

    Timing
    ------
    The magnitude of a new momentum follows ``V_LATENCY`` cycles after the weight is taken, a new weight ``LATENCY``.
    """

    _TERM = Product.LATENCY + Requantise.LATENCY
    """Cycles from factors to their term."""
    # Cycles of a weight, which is taken in cycle 0.
    _SUM = 2 + _TERM + 1
    """The gradient comes, after momentum and decay, which comes a cycle after the momentum."""
    V_LATENCY = _SUM + 1 + Rounder.LATENCY
    _STEP = -(-(V_LATENCY + 1) // FOLD) * FOLD
    """The new momentum is multiplied."""
    _CHANGE = _STEP + _TERM + 1
    """The old weight comes, a cycle after the step."""
    LATENCY = _CHANGE + 1 + Rounder.LATENCY

    def __init__(self, config: Config, lends: bool = False):
        self._operand_width, self._predicts, self._lends = config.operand_width, config.predicts, lends
        operand, low, momentum = signed(config.operand_width), signed(LOW_BITS), signed(MOMENTUM_WIDTH)
        super().__init__({
            "slots": In(FOLD), "scale": In(ScaleLayout(config)),
            "g": In(operand), "hi": In(operand), "lo": In(low), "v": In(momentum),
            "o_hi": Out(operand), "o_lo": Out(low), "o_v": Out(momentum),
            "v_magnitude": Out(ROUNDED_WIDTH), "v_saturated": Out(1),
            "w_magnitude": Out(ROUNDED_WIDTH), "w_saturated": Out(1),
            **({"lent": In(1), "asks": In(FactorLayout), "aligned": Out(signed(ALIGN_WIDTH))} if lends else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        none = self.g == unpredicted(self._operand_width) if self._predicts else None
        new = Signal(signed(len(self.v)))
        w = Signal(signed(len(self.hi) + len(self.lo)))
        m.d.comb += w.eq((self.hi << len(self.lo)) + self.lo)
        gradient, old = self._SUM - Requantise.LATENCY, self._CHANGE - Requantise.LATENCY
        self._held = {
            "g": self._holds(m, "g", self.g if none is None else Mux(none, 0, self.g), 0, gradient),
            "w": self._holds(m, "w", w, 0, old), "v": self._holds(m, "v", self.v, 0, 1),
            "new": self._holds(m, "new", new, self.V_LATENCY, self.LATENCY),
            "none": [] if none is None else self._holds(m, "none", none, 0, self._STEP),
        }  # fmt: skip
        term = self._multiplied(m)
        shifted = self._shifted(m, {gradient: ("g", self.scale.shift_g), old: ("w", self.scale.shift_w)})
        self._summed(m, term, shifted, new)
        m.d.comb += [*weight_halves(new, self.o_hi, self.o_lo), self.o_v.eq(self._of("new", self.LATENCY))]
        return m

    def _holds(self, m, name, value, since, until):
        """Keep ``value``, there in cycle ``since`` of a weight, until a later cycle, in registers for a fold each."""
        held = []
        for cycle in range(since, until, FOLD):
            register = Signal.like(value, name=f"{name}{cycle}", reset_less=True)
            with m.If(self.slots[since % FOLD]):
                m.d.sync += register.eq(held[-1] if held else value)
            held.append(register)
        return since, held

    def _of(self, name, cycle):
        """The register of ``name`` of the weight for which it is that cycle."""
        since, held = self._held[name]
        return held[(cycle - since - 1) // FOLD]

    def _in(self, choices):
        """The value of the slot, of ``choices`` by cycle of a weight."""
        values = {cycle % FOLD: value for cycle, value in choices.items()}
        return Mux(self.slots[0], values[0], Mux(self.slots[1], values[1], values[2]))

    def _multiplied(self, m):
        """Momentum, decay and step, one after the other.

        Without a gradient they are the momentum times one, and nothing.
        """
        scale, step = self.scale, self._STEP
        factors, momentum = {1: scale.mm, 2: scale.md, step: scale.ml}, scale.shift_v
        if self._predicts:
            factors = {
                cycle: Mux(self._of("none", cycle), scale.mk if cycle == 1 else 0, value)
                for cycle, value in factors.items()
            }
            momentum = Mux(self._of("none", 1 + Product.LATENCY), scale.shift_k, momentum)
        m.submodules.product = product = Product(self.asks.i.shape() if self._lends else signed(len(self.v)))
        m.submodules.align = align = Requantise(len(product.o), ALIGN_WIDTH, -ALIGN_LEFT, ALIGN_RIGHT)
        shifts = {1: momentum, 2: scale.shift_d, step: scale.shift_l}
        own = {
            "i": self._in({1: self._of("v", 1), 2: self._of("w", 2), step: self._of("new", step)}),
            "factor": self._in(factors),
            "shift": self._in({cycle + Product.LATENCY: shift for cycle, shift in shifts.items()}),
        }
        if self._lends:
            own = {name: Mux(self.lent, self.asks[name], value) for name, value in own.items()}
            m.d.comb += self.aligned.eq(align.o)
        m.d.comb += [
            product.i.eq(own["i"]), product.factor.eq(own["factor"]),
            align.i.eq(product.o), align.shift.eq(own["shift"]),
        ]  # fmt: skip
        return align.o

    def _shifted(self, m, terms):
        """The terms without a factor, given by cycle with their shifts."""
        m.submodules.align_only = align = Requantise(len(self.v), ALIGN_WIDTH, -ALIGN_LEFT, ALIGN_RIGHT)
        (cycle, (name, shift)), (other, (later, of_later)) = terms.items()
        first = self.slots[cycle % FOLD]
        m.d.comb += [
            align.i.eq(Mux(first, self._of(name, cycle), self._of(later, other))),
            align.shift.eq(Mux(first, shift, of_later)),
        ]
        return align.o

    def _summed(self, m, term, shifted, new):
        """Sum up the new momentum and the new weight, and cut them to their limits."""
        previous = Signal.like(term, reset_less=True)
        pair = Signal(signed(ALIGN_WIDTH + 1), reset_less=True)
        total = Signal(signed(ALIGN_WIDTH + 2), reset_less=True)
        falls = self.slots[self._CHANGE % FOLD]
        m.d.sync += [
            previous.eq(term), pair.eq(previous + term), total.eq(shifted + Mux(falls, ~previous, pair) + falls),
        ]  # fmt: skip
        limits = (1 << (len(self.v) - 1)) - 1, weight_max(self._operand_width)
        m.submodules.rounded = rounded = Rounder(len(total), *limits)
        m.d.comb += [
            rounded.i.eq(total), rounded.limit.eq(self.slots[(self._CHANGE + 1) % FOLD]), new.eq(rounded.o),
            self.v_magnitude.eq(rounded.magnitude), self.w_magnitude.eq(rounded.magnitude),
            self.v_saturated.eq(rounded.saturated), self.w_saturated.eq(rounded.saturated),
        ]  # fmt: skip


def lane_type(config: Config) -> type[SgdLane] | type[FoldedSgdLane]:
    """The SGD lane that takes a weight in ``config.update_cycles``."""
    return FoldedSgdLane if config.update_cycles == FOLD else SgdLane
