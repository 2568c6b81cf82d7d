"""Bound and slope of a ReLU: the last stages of a lane of the epilogue, and the bound at an exponent."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import CMode
from ...spec.config import Config
from ...spec.microcode.descriptors import DRAIN
from ...spec.numerics import BOUND_BITS, BOUND_SHIFT, SLOPE_BITS
from ..lib.delay import delayed
from ..lib.interfaces import descriptor_layout
from ..lib.multiplier import Multiplier
from ..lib.requantise import Requantise

__all__ = ["Activation", "Bound"]


class Activation(wiring.Component):
    """Takes the steps of docs/machine.md that come with ``Config.clamps``, after the saturation.

    Members
    -------
    i : In(signed(config.operand_width))
        a result
    low : In(1)
        it is multiplied by the slope
    bounded : In(1)
        it is at most the bound
    bound : In(config.operand_width - 1)
        the bound; stands still
    slope : In(SLOPE_BITS)
        the slope in 2^-SLOPE_BITS; stands still
    o : Out(signed(config.operand_width))
        the result

    Timing
    ------
    Free-running: ``o`` follows ``LATENCY`` cycles after ``i``, a new one every cycle.
    """

    LATENCY = Multiplier.LATENCY + 1

    def __init__(self, config: Config):
        operand = signed(config.operand_width)
        super().__init__({
            "i": In(operand), "low": In(1), "bounded": In(1), "bound": In(config.operand_width - 1),
            "slope": In(SLOPE_BITS), "o": Out(operand),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.multiplier = multiplier = Multiplier(SLOPE_BITS + 1)
        m.d.comb += [multiplier.a.eq(self.i), multiplier.b.eq(Cat(self.slope, Const(0, 1))), multiplier.b_en.eq(1)]
        s1_i, s1_bounded = (delayed(m, each, 1, reset=False) for each in (self.i, self.bounded))
        s2_i, s2_low = delayed(m, s1_i, 1, reset=False), delayed(m, self.low, Multiplier.LATENCY, reset=False)
        s2_above = Signal(reset_less=True)
        m.d.sync += s2_above.eq(s1_bounded & ~s1_i[-1] & (s1_i[:-1] > self.bound))
        whole, fraction = multiplier.o[SLOPE_BITS : SLOPE_BITS + len(self.i)], multiplier.o[:SLOPE_BITS]
        up = fraction[-1] & (fraction[:-1].any() | whole[0])  # half to even
        s3_o = Signal.like(self.o, reset_less=True)
        m.d.sync += s3_o.eq(Mux(s2_low, whole.as_signed() + up, Mux(s2_above, self.bound, s2_i)))
        m.d.comb += self.o.eq(s3_o)
        return m


class Bound(wiring.Component):
    """A descriptor's bound, at the exponent of what it is compared with.

    Members
    -------
    d : In(descriptor_layout(DRAIN))
        the descriptor
    bound : Out(config.operand_width - 1)
        the bound, unless no operand is beyond it
    bounded, cut : Out(1)
        some operands are beyond it: results, or elements of C
    limit : Out(signed(8))
        most bits of a result

    Timing
    ------
    All follow ``LATENCY`` cycles after ``d``, which is before its first vector enters the epilogue.
    """

    LATENCY = Requantise.LATENCY + 1

    def __init__(self, config: Config):
        self._width = config.operand_width
        super().__init__({
            "d": In(descriptor_layout(DRAIN)), "bound": Out(config.operand_width - 1),
            "bounded": Out(1), "cut": Out(1), "limit": Out(signed(8)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        d = self.d
        m.submodules.scale = scale = Requantise(
            BOUND_BITS + 1, self._width + 1, shift_min=-BOUND_SHIFT, shift_max=BOUND_SHIFT
        )
        m.d.comb += [scale.i.eq(d.bound), scale.shift.eq(d.shift_bound)]
        some, masks = Signal(), Signal()
        within = some & ~scale.o[self._width - 1]
        no_limit = Const(127, signed(8))
        m.d.sync += [
            some.eq(d.bound != 0), masks.eq(d.c_mode == CMode.MASK), self.bound.eq(scale.o),
            self.bounded.eq(within & ~masks), self.cut.eq(within & masks),
            self.limit.eq(Mux(some & ~masks, BOUND_BITS - d.shift_bound, no_limit)),
        ]  # fmt: skip
        return m
