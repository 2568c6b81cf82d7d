"""Product of a 16-bit factor and a wide integer, of narrow multipliers and one adder."""

from amaranth import Cat, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FACTOR_WIDTH", "Product"]

FACTOR_WIDTH = 16


class Product(wiring.Component):
    """``o`` = ``factor`` (unsigned) * ``i``, free-running, ``LATENCY`` cycles later.

    One multiplier for each 16 bits of ``i``, whose ``shape`` may be signed. Partial products two places apart don't
    overlap, so that two numbers are left to be added, however wide ``i`` is.
    """

    LATENCY = 3

    def __init__(self, shape):
        width, is_signed = len(Signal(shape)), Signal(shape).shape().signed
        o = width + FACTOR_WIDTH
        super().__init__({
            "factor": In(FACTOR_WIDTH), "i": In(shape), "o": Out(signed(o) if is_signed else unsigned(o)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        s1_factor = Signal.like(self.factor, reset_less=True)
        s1_i = Signal.like(self.i, reset_less=True)
        m.d.sync += [s1_factor.eq(self.factor), s1_i.eq(self.i)]
        s2_parts = []
        for at in range(0, len(self.i), FACTOR_WIDTH):
            piece = s1_i[at : at + FACTOR_WIDTH]
            if at + FACTOR_WIDTH >= len(self.i) and self.i.shape().signed:
                piece = piece.as_signed()
            width = len(piece) + FACTOR_WIDTH
            shape = signed(width) if piece.shape().signed else unsigned(width)
            s2_part = Signal(shape, name=f"s2_part{at}", reset_less=True)
            m.d.sync += s2_part.eq(piece * s1_factor)
            s2_parts.append(s2_part)
        s3_sum = Signal.like(self.o, reset_less=True)
        m.d.sync += s3_sum.eq(self._joined(s2_parts[0::2]) + (self._joined(s2_parts[1::2]) << FACTOR_WIDTH))
        m.d.comb += self.o.eq(s3_sum)
        return m

    def _joined(self, parts):
        """Partial products side by side, with the sign of the last."""
        if not parts:
            return 0
        joined = Cat(*parts)
        return joined.as_signed() if parts[-1].shape().signed else joined
