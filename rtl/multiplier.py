"""A multiplier with registers on both sides, as FPGAs have them in blocks."""

from amaranth import ClockSignal, Const, Instance, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Multiplier"]

_ECP5_WIDTH = 18


class Multiplier(wiring.Component):
    """``o`` = ``a`` * ``b``, signed, ``LATENCY`` cycles with ``en`` later; ``b`` is taken only in cycles with ``b_en``.

    No reset. On platforms whose ``family`` is "ecp5" it is a MULT18X18D whose own registers are in use: Yosys infers
    none, and place and route reckons with the faster ports of a registered block.
    """

    LATENCY = 2

    def __init__(self, width: int):
        self._width = width
        super().__init__({
            "a": In(signed(width)), "b": In(signed(width)), "b_en": In(1), "en": In(1, init=1),
            "o": Out(signed(2 * width)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        if getattr(platform, "family", None) == "ecp5":
            m.submodules.block = self._ecp5()
            return m
        s1_a, s1_b = (Signal(signed(self._width), name=f"s1_{name}", reset_less=True) for name in "ab")
        s2_product = Signal.like(self.o, reset_less=True)
        with m.If(self.en):
            m.d.sync += [s1_a.eq(self.a), s2_product.eq(s1_a * s1_b)]
        with m.If(self.b_en):
            m.d.sync += s1_b.eq(self.b)
        m.d.comb += self.o.eq(s2_product)
        return m

    def _ecp5(self):
        """The block: inputs and output registered by CLK0, with CE0, ``b`` with CE1."""
        registers = {
            f"p_REG_{port}_{pin}": f"{pin}{number}"
            for port, number in (("INPUTA", 0), ("INPUTB", 1), ("OUTPUT", 0))
            for pin, number in (("CLK", 0), ("CE", number), ("RST", 0))
        }
        sides = {"A": self.a, "B": self.b}
        inputs = {
            f"i_{side}{bit}": value[min(bit, self._width - 1)] for side, value in sides.items()
            for bit in range(_ECP5_WIDTH)
        }  # fmt: skip
        outputs = {f"o_P{bit}": self.o[bit] for bit in range(2 * self._width)}
        controls = {"i_CLK0": ClockSignal(), "i_CE0": self.en, "i_CE1": self.b_en, "i_RST0": Const(0, 1)}
        return Instance(
            "MULT18X18D", p_GSR="DISABLED", **registers, **inputs, **outputs, **controls,
            i_SIGNEDA=Const(1, 1), i_SIGNEDB=Const(1, 1), i_SOURCEA=Const(0, 1), i_SOURCEB=Const(0, 1),
        )  # fmt: skip
