"""A processing element: a multiplier with its stationary operand, and an adder in its column."""

from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.delay import delayed
from ..lib.multiplier import Multiplier

__all__ = ["PE"]


class PE(wiring.Component):
    """Multiplies stream operands by its stationary operand and adds the psum from the PE above.

    Members
    -------
    stationary, load : In
        write ``stationary`` to the shadow register
    swap : In(1)
        copy the shadow register to the active one; a stream operand of the same cycle meets the new value
    stream : In(operand)
        the stream operand
    i_psum, o_psum : In, Out
        psum from above, psum to below

    Timing
    ------
    ``o_psum`` is ``stream * active`` of ``latency`` cycles ago plus ``i_psum`` of ``psum_latency`` cycles ago.
    """

    psum_latency = 1
    latency = Multiplier.LATENCY + psum_latency
    """Without ``Config.registered_products``, which adds a cycle to that of a PE."""

    def __init__(self, config: Config):
        operand = signed(config.operand_width)
        super().__init__({
            "stationary": In(operand), "load": In(1), "swap": In(1), "stream": In(operand),
            "i_psum": In(signed(config.psum_width)), "o_psum": Out(signed(config.psum_width)),
        })  # fmt: skip
        self.config = config
        self.latency = PE.latency + config.registered_products

    def elaborate(self, platform):
        m = Module()
        operand = signed(self.config.operand_width)
        # Data only: their validity is known beside the array, so no register needs a reset.
        shadow = Signal(operand, reset_less=True)
        m.submodules.multiplier = multiplier = Multiplier(self.config.operand_width)
        psum = Signal(signed(self.config.psum_width), reset_less=True)

        with m.If(self.load):
            m.d.sync += shadow.eq(self.stationary)
        product = delayed(m, multiplier.o, int(self.config.registered_products), reset=False)
        m.d.sync += psum.eq(self.i_psum + product)
        m.d.comb += [
            multiplier.a.eq(self.stream), multiplier.b.eq(shadow), multiplier.b_en.eq(self.swap),
            self.o_psum.eq(psum),
        ]  # fmt: skip
        return m
