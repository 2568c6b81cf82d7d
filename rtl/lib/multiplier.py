"""A multiplier with the registers of an FPGA's multiplier block."""

from amaranth import ClockSignal, Const, Instance, Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .delay import delayed, registered

__all__ = ["Multiplier"]

_ECP5_WIDTH = 18


class Multiplier(wiring.Component):
    """``o`` = ``a`` * ``b``, signed, without reset.

    On platforms whose ``family`` is "ecp5" it is a MULT18X18D with its own registers in use: Yosys infers none, and
    place and route reckons with the faster ports of a registered block.

    Parameters
    ----------
    width
        bits of an operand
    inputs
        register the operands; without it, for operands that come from registers, the latency is one cycle less

    Members
    -------
    a : In(signed(width))
        operand, taken in cycles with ``en``
    b : In(signed(width))
        operand, taken in cycles with ``b_en``
    b_en : In(1)
        take ``b``
    en : In(1, init=1)
        the pipeline moves
    o : Out(signed(2 * width))
        the product

    Timing
    ------
    ``LATENCY`` cycles with ``en``; a product every cycle.
    """

    LATENCY = 2

    def __init__(self, width: int, inputs: bool = True):
        self._width = width
        self._inputs = inputs
        super().__init__({
            "a": In(signed(width)), "b": In(signed(width)), "b_en": In(1), "en": In(1, init=1),
            "o": Out(signed(2 * width)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        if getattr(platform, "family", None) == "ecp5":
            m.submodules.block = self._ecp5()
            return m
        s1_a, s1_b = self.a, self.b
        if self._inputs:
            s1_a, s1_b = (delayed(m, operand, 1, en, reset=False)
                          for operand, en in ((self.a, self.en), (self.b, self.b_en)))  # fmt: skip
        registered(m, self.o, s1_a * s1_b, self.en)
        return m

    def _ecp5(self):
        """The block: inputs and output are clocked by CLK0, enabled by CE0; ``b`` is enabled by CE1."""
        inputs = (("INPUTA", 0), ("INPUTB", 1)) if self._inputs else ()
        registers = {
            f"p_REG_{port}_{pin}": f"{pin}{number}"
            for port, number in (*inputs, ("OUTPUT", 0))
            for pin, number in (("CLK", 0), ("CE", number), ("RST", 0))
        }
        sides = {"A": self.a, "B": self.b}
        operands = {
            f"i_{side}{bit}": value[min(bit, self._width - 1)] for side, value in sides.items()
            for bit in range(_ECP5_WIDTH)
        }  # fmt: skip
        outputs = {f"o_P{bit}": self.o[bit] for bit in range(2 * self._width)}
        controls = {"i_CLK0": ClockSignal(), "i_CE0": self.en, "i_CE1": self.b_en, "i_RST0": Const(0, 1)}
        return Instance(
            "MULT18X18D", p_GSR="DISABLED", **registers, **operands, **outputs, **controls,
            i_SIGNEDA=Const(1, 1), i_SIGNEDB=Const(1, 1), i_SOURCEA=Const(0, 1), i_SOURCEB=Const(0, 1),
        )  # fmt: skip
