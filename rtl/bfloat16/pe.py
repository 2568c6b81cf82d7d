"""A processing element for floating-point numbers: bfloat16 operands, float32 psums."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .adder import FloatAdder
from .format import BFLOAT16, FLOAT32
from .multiplier import FloatMultiplier

__all__ = ["PEBfloat16"]


class PEBfloat16(wiring.Component):
    """Multiplies stream operands by its stationary operand and adds the psum from above, as the integer PE does.

    The product is exact, the sum rounded to nearest, ties to even, without subnormals: see :class:`.FloatMultiplier`
    and :class:`.FloatAdder`.

    Members
    -------
    stationary, load : In
        write ``stationary`` to the shadow register
    swap : In(1)
        copy the shadow register to the active one; a stream operand of the same cycle meets the new value
    stream : In(BFLOAT16)
        the stream operand
    i_psum, o_psum : In, Out
        psum from above, psum to below

    Timing
    ------
    ``o_psum`` is ``stream * active`` of ``latency`` cycles ago plus ``i_psum`` of ``psum_latency`` cycles ago.
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
