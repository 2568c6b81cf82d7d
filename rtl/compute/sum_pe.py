"""A processing element of the output-stationary array: a multiplier, and a sum that stays."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.multiplier import Multiplier

__all__ = ["SumPE"]


class SumPE(wiring.Component):
    """Adds up products of its row's and its column's operands.

    Members
    -------
    a, b : In(operand)
        operands of the row and of the column
    add : In(1)
        the product of ``Multiplier.LATENCY`` cycles ago counts
    first : In(1)
        the sum begins with it
    o : Out(signed(config.acc_width))
        the sum

    Timing
    ------
    ``o`` has a product ``latency`` cycles after its operands; a product a cycle.
    """

    latency = Multiplier.LATENCY + 1

    def __init__(self, config: Config):
        operand = signed(config.operand_width)
        super().__init__({
            "a": In(operand), "b": In(operand), "add": In(1), "first": In(1), "o": Out(signed(config.acc_width)),
        })  # fmt: skip
        self.config = config

    def elaborate(self, platform):
        m = Module()
        m.submodules.multiplier = multiplier = Multiplier(self.config.operand_width)
        total = Signal.like(self.o, reset_less=True)
        m.d.comb += [
            multiplier.a.eq(self.a), multiplier.b.eq(self.b), multiplier.b_en.eq(1), self.o.eq(total),
        ]  # fmt: skip
        with m.If(self.add):
            m.d.sync += total.eq(Mux(self.first, 0, total) + multiplier.o)
        return m
