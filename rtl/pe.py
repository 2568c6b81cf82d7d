"""One processing element: a multiplier with its stationary operand, and an adder in its column."""

from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config

__all__ = ["PE"]


class PE(wiring.Component):
    """Multiplies what streams by its stationary operand and adds the psum from the PE above.

    ``load`` writes ``stationary`` to the shadow register, ``swap`` copies the shadow register to the
    active one; a stream operand that comes in the cycle after ``swap`` meets the new value.

    Timing: ``o_psum`` is ``stream * active`` of ``latency`` cycles ago plus ``i_psum`` of one cycle ago.
    """

    latency = 2

    def __init__(self, config: Config):
        operand = signed(config.operand_width)
        super().__init__({
            "stationary": In(operand), "load": In(1), "swap": In(1), "stream": In(operand),
            "i_psum": In(signed(config.psum_width)), "o_psum": Out(signed(config.psum_width)),
        })  # fmt: skip
        self.config = config

    def elaborate(self, platform):
        m = Module()
        operand = signed(self.config.operand_width)
        # Data only: what is valid is known beside the array, so nothing needs a reset.
        shadow = Signal(operand, reset_less=True)
        active = Signal(operand, reset_less=True)
        product = Signal(signed(2 * self.config.operand_width), reset_less=True)
        psum = Signal(signed(self.config.psum_width), reset_less=True)

        with m.If(self.load):
            m.d.sync += shadow.eq(self.stationary)
        with m.If(self.swap):
            m.d.sync += active.eq(shadow)
        m.d.sync += [product.eq(self.stream * active), psum.eq(self.i_psum + product)]
        m.d.comb += self.o_psum.eq(psum)
        return m
