"""A bfloat16 multiplier with an exact product."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..lib.multiplier import Multiplier
from .format import BFLOAT16, FLOAT32, selected

__all__ = ["FloatMultiplier"]

_SIGNIFICAND = 8


class FloatMultiplier(wiring.Component):
    """``o`` = ``a`` * ``b``, from bfloat16 to float32.

    Two significands of 8 bits have a product of 16, so nothing is rounded. Subnormal operands count as zeros of their
    sign. A product below 2^-126 becomes a zero, one of 2^128 or more an infinity. A NaN, or zero times infinity, gives
    the NaN 0x7fc00000.

    Members
    -------
    a : In(BFLOAT16)
        operand, taken every cycle
    b, b_en : In
        operand, taken in cycles with ``b_en``
    o : Out(FLOAT32)
        the product

    Timing
    ------
    Free-running: ``o`` follows ``LATENCY`` cycles after its operands, a new product every cycle.
    """

    LATENCY = Multiplier.LATENCY + 1

    def __init__(self):
        super().__init__({"a": In(BFLOAT16), "b": In(BFLOAT16), "b_en": In(1), "o": Out(FLOAT32)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.multiplier = multiplier = Multiplier(_SIGNIFICAND + 1)
        significands = (Cat(side.fraction, Const(0b01, 2)).as_signed() for side in (self.a, self.b))
        m.d.comb += [multiplier.a.eq(next(significands)), multiplier.b.eq(next(significands))]
        m.d.comb += multiplier.b_en.eq(self.b_en)

        # Beside the multiplier's registers: signs, exponents and special values.
        a, b = self._registered(m, "a", self.a, 1), self._registered(m, "b", self.b, self.b_en)
        s2_sign, s2_nan, s2_infinite, s2_zero = (
            Signal(name=f"s2_{name}", reset_less=True) for name in ("sign", "nan", "infinite", "zero")
        )
        s2_exponent = Signal(9, reset_less=True)  # 128 too high
        m.d.sync += [
            s2_sign.eq(a["sign"] ^ b["sign"]), s2_exponent.eq((Cat(1, a["exponent"]) + Cat(1, b["exponent"]))[1:]),
            s2_infinite.eq(a["special"] | b["special"]), s2_zero.eq(a["zero"] | b["zero"]),
            s2_nan.eq(
                a["special"] & (a["fraction"] | b["zero"]) | b["special"] & (b["fraction"] | a["zero"])
            ),
        ]  # fmt: skip

        s3_o = Signal(FLOAT32, reset_less=True)
        product = multiplier.o[: 2 * _SIGNIFICAND]
        two = product[-1]  # the product of significands is 2 or more
        exponent, low = (s2_exponent + two)[:8], s2_exponent[:7]
        # Above 254 + 128, or not above 128, including the 1 that a product of 2 or more adds; found before it is added.
        above = s2_exponent[8] & (s2_exponent[7] | low[1:].all() & (low[0] | two))
        below = ~s2_exponent[8] & ~(s2_exponent[7] & (low.any() | two))
        fraction = Mux(two, product[:-1], product[:-2].shift_left(1))
        m.d.sync += s3_o.eq(selected(
            s2_sign, Cat(Const(0, 8), fraction, exponent[:7], ~exponent[7]),
            nan=s2_nan, infinite=s2_infinite | above & ~s2_zero, zero=s2_zero | below,
        ))  # fmt: skip
        m.d.comb += self.o.eq(s3_o)
        return m

    def _registered(self, m, name, value, en):
        """An operand's sign, exponent and flags, in registers."""
        found = {
            "sign": value.sign, "exponent": value.exponent, "zero": ~value.exponent.any(),
            "special": value.exponent.all(), "fraction": value.fraction.any(),
        }  # fmt: skip
        registers = {part: Signal(len(bits), name=f"s1_{name}_{part}", reset_less=True) for part, bits in found.items()}
        with m.If(en):
            m.d.sync += [register.eq(found[part]) for part, register in registers.items()]
        return registers
