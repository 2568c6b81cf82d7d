"""A processing element of floating-point numbers: bfloat16 operands, float32 psums."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .adder import FloatAdder
from .format import BFLOAT16, FLOAT32
from .multiplier import FloatMultiplier

__all__ = ["PEBfloat16"]


class PEBfloat16(wiring.Component):
    """Multiplies what streams by its stationary operand and adds the psum from the PE above, as :class:`.pe.PE` does.

    The product is exact, the sum rounded to nearest, ties to even, without subnormals: see :class:`FloatMultiplier` and
    :class:`FloatAdder`. ``load`` writes ``stationary`` to the shadow register, ``swap`` copies the shadow register to
    the active one; a stream operand that comes in the cycle of ``swap`` meets the new value.

    Timing: ``o_psum`` is ``stream * active`` of ``latency`` cycles ago plus ``i_psum`` of ``psum_latency`` cycles ago.
    """

    psum_latency = FloatAdder.LATENCY
    latency = FloatMultiplier.LATENCY + psum_latency

    def __init__(self):
        super().__init__({
            "stationary": In(BFLOAT16), "load": In(1), "swap": In(1), "stream": In(BFLOAT16),
            "i_psum": In(FLOAT32), "o_psum": Out(FLOAT32),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        shadow = Signal(BFLOAT16, reset_less=True)
        m.submodules.multiply = multiply = FloatMultiplier()
        m.submodules.add = add = FloatAdder()
        with m.If(self.load):
            m.d.sync += shadow.eq(self.stationary)
        m.d.comb += [
            multiply.a.eq(self.stream), multiply.b.eq(shadow), multiply.b_en.eq(self.swap),
            add.a.eq(self.i_psum), add.b.eq(multiply.o), self.o_psum.eq(add.o),
        ]  # fmt: skip
        return m
