"""A float32 adder, rounded to nearest, ties to even."""

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .format import FLOAT32, selected

__all__ = ["FloatAdder"]

_BELOW = 3
"""Bits kept below a significand's 24: two exact ones, and one that is 1 if any lost bit was 1."""
_PLACES = 31
"""Places by which the normalising shifter can shift. Each moves the exponent by 1, from that of the place for a carry.
"""


class FloatAdder(wiring.Component):
    """``o`` = ``a`` + ``b`` in float32, rounded to nearest, ties to even.

    Subnormal operands count as zeros of their sign, and a sum that would be subnormal becomes a zero of its sign (such
    sums are exact, so they are the same before and after rounding). Zeros of different signs, and ``x - x``, add up to
    +0. A NaN, or infinities of different signs, give the NaN 0x7fc00000.

    Members
    -------
    a, b : In(FLOAT32)
        the operands
    o : Out(FLOAT32)
        the sum

    Timing
    ------
    Free-running: ``o`` follows ``LATENCY`` cycles after its operands, a new sum every cycle.
    """

    LATENCY = 7

    def __init__(self):
        super().__init__({"a": In(FLOAT32), "b": In(FLOAT32), "o": Out(FLOAT32)})

    def elaborate(self, platform):
        m = Module()
        s1 = self._registered(m, 1, **self._ordered())
        s2 = self._registered(
            m, 2, large=s1["large"], exponent=s1["exponent"], small=self._aligned(m, s1), sign=s1["sign"],
            subtract=s1["subtract"], infinite=s1["infinite"],
            nan=s1["infinite"] & s1["large"][:-1].any() | s1["infinities"] & s1["subtract"],
        )  # fmt: skip
        least = (s2["exponent"] - Const(_PLACES - 1, 10))[:10]  # as if all places had been shifted
        s3 = self._registered(m, 3, word=self._total(s2), exponent=least, **self._flags(s2))
        word, coarse = self._normalised(m, s3["word"], 3, 4)
        s4 = self._registered(m, 4, word=word, places=coarse, exponent=s3["exponent"], **self._flags(s3))
        word, fine = self._normalised(m, s4["word"], 2, 1)
        s5 = self._registered(
            m, 5, word=word[_BELOW + 1 : -1], half=word[_BELOW], lost=word[:_BELOW].any(), zero=~word[-1],
            places=Cat(fine, s4["places"]), exponent=s4["exponent"], **self._flags(s4),
        )  # fmt: skip
        s6 = self._registered(m, 6, number=self._rounded(s5), zero=s5["zero"], **self._flags(s5))
        m.d.comb += self.o.eq(self._registered(m, 7, o=self._ended(s6))["o"])
        return m

    @staticmethod
    def _registered(m, stage, **values):
        """``values`` a cycle later, from registers without reset."""
        found = {}
        for name, value in values.items():
            found[name] = Signal(Value.cast(value).shape(), name=f"s{stage}_{name}", reset_less=True)
            m.d.sync += found[name].eq(value)
        return found

    @staticmethod
    def _flags(stage):
        return {name: stage[name] for name in ("sign", "subtract", "nan", "infinite")}

    def _ordered(self):
        """Significands by magnitude, their distance, and the result's flags if it is no number."""
        a, b = self.a, self.b
        swap = Cat(a.fraction, a.exponent) < Cat(b.fraction, b.exponent)
        (large, exponent, sign), (small, *_) = (
            tuple(Mux(swap, second[name], first[name]) for name in ("fraction", "exponent", "sign"))
            for first, second in ((a, b), (b, a))
        )
        some_a, some_b = a.exponent.any(), b.exponent.any()
        some = some_a | some_b
        return {
            "large": Cat(large & some.replicate(23), some), "exponent": exponent,
            "small": Cat(small, Mux(swap, some_a, some_b)),
            "distance": Mux(swap, (b.exponent - a.exponent)[:8], (a.exponent - b.exponent)[:8]),
            "sign": sign, "subtract": a.sign ^ b.sign,
            "infinite": a.exponent.all() | b.exponent.all(), "infinities": a.exponent.all() & b.exponent.all(),
        }  # fmt: skip

    @staticmethod
    def _aligned(m, s1):
        """The smaller significand shifted right, the OR of all lost bits in its last place; inverted to subtract."""
        word, lost = Cat(Const(0, _BELOW - 1), s1["small"] & s1["small"][-1].replicate(24)), Const(0, 1)
        for bit in reversed(range(5)):
            by = 1 << bit
            previous, word = word, Signal(len(word), name=f"down{by}")
            m.d.comb += word.eq(Mux(s1["distance"][bit], previous.shift_right(by), previous))
            lost |= s1["distance"][bit] & previous[:by].any()
        far = s1["distance"][5:].any()  # so far that lost bits can't change the rounding
        word = Cat(lost, word & ~far.replicate(len(word)))
        return word ^ s1["subtract"].replicate(len(word))

    @staticmethod
    def _total(s2):
        """Sum or difference, in one carry chain: a 1 below the last place makes the inverted word a negative."""
        large, small = Cat(1, Const(0, _BELOW), s2["large"]), Cat(s2["subtract"], s2["small"], s2["subtract"])
        return (large + small)[1 : len(small)]

    @staticmethod
    def _normalised(m, word, bits, unit):
        """``word`` shifted left by its leading groups of ``unit`` zeros, up to 2^bits - 1 of them, and their number.

        The groups are counted before anything is shifted, which is faster than checking the word after each shift.
        """
        none = Cat(~word[place : place + unit].any() for place in range(len(word) % unit, len(word), unit))
        groups = []
        for bit in reversed(range(bits)):
            by = 1 << bit
            groups.insert(0, none[-by:].all())
            none = Mux(groups[0], Cat(Const(-1, by), none[:-by]), none)
        for bit in reversed(range(bits)):
            previous, word = word, Signal(len(word), name=f"up{unit << bit}")
            m.d.comb += word.eq(Mux(groups[bit], previous.shift_left(unit << bit), previous))
        return word, Cat(groups)

    @staticmethod
    def _rounded(s5):
        """Fraction and exponent as one number, so that a fraction that is rounded up to 2 moves the exponent."""
        up = s5["half"] & (s5["lost"] | s5["word"][0])
        # Places that weren't shifted are added to the exponent, in the carry chain that rounds.
        return (Cat(1, s5["word"], s5["exponent"]) + Cat(up, Const(0, 23), ~s5["places"]))[1:34]

    @staticmethod
    def _ended(s6):
        """The number, or a special value if a flag or its exponent (10 bits, two's complement) demands one."""
        exponent, zero = s6["number"][23:], s6["zero"]
        below, above = exponent[9] | ~exponent.any(), ~exponent[9] & (exponent[8] | exponent[:8].all())
        return selected(
            s6["sign"] & ~(zero & s6["subtract"]), s6["number"], nan=s6["nan"],
            infinite=s6["infinite"] | above & ~zero, zero=zero | below,
        )  # fmt: skip
