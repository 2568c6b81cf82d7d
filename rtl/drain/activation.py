"""Bound and slope of a ReLU: the last stages of a lane of the epilogue."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.numerics import SLOPE_BITS
from ..lib.delay import delayed
from ..lib.multiplier import Multiplier

__all__ = ["Activation"]


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
