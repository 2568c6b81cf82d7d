"""Product of a 16-bit factor and a wide integer, from narrow multipliers and one adder."""

from amaranth import Cat, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .multiplier import Multiplier

__all__ = ["FACTOR_WIDTH", "Product"]

FACTOR_WIDTH = 16


class Product(wiring.Component):
    """``o`` = ``factor`` * ``i``.

    It has one multiplier for each 16 bits of ``i``. Partial products two places apart don't overlap, so only two
    numbers are left to be added, however wide ``i`` is.

    Parameters
    ----------
    shape
        shape of ``i``, signed or not

    Members
    -------
    factor : In(FACTOR_WIDTH)
        unsigned factor of ``FACTOR_WIDTH`` bits
    i : In(shape)
        the wide factor
    o : Out(signed(o) if is_signed else unsigned(o))
        the product

    Timing
    ------
    Free-running: ``o`` follows ``LATENCY`` cycles after its operands, a new one every cycle.
    """

    LATENCY = Multiplier.LATENCY + 1

    def __init__(self, shape):
        width, is_signed = len(Signal(shape)), Signal(shape).shape().signed
        o = width + FACTOR_WIDTH
        super().__init__({
            "factor": In(FACTOR_WIDTH), "i": In(shape), "o": Out(signed(o) if is_signed else unsigned(o)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        parts = []
        for at in range(0, len(self.i), FACTOR_WIDTH):
            piece = self.i[at : at + FACTOR_WIDTH]
            if at + FACTOR_WIDTH >= len(self.i) and self.i.shape().signed:
                piece = piece.as_signed()
            m.submodules[f"multiplier{at}"] = multiplier = Multiplier(FACTOR_WIDTH + 1)
            m.d.comb += [multiplier.a.eq(self.factor), multiplier.b.eq(piece), multiplier.b_en.eq(1)]
            part = multiplier.o[: len(piece) + FACTOR_WIDTH]
            parts.append(part.as_signed() if piece.shape().signed else part)
        s3_sum = Signal.like(self.o, reset_less=True)
        m.d.sync += s3_sum.eq(self._joined(parts[0::2]) + (self._joined(parts[1::2]) << FACTOR_WIDTH))
        m.d.comb += self.o.eq(s3_sum)
        return m

    def _joined(self, parts):
        """Partial products side by side, with the sign of the last one."""
        if not parts:
            return 0
        joined = Cat(*parts)
        return joined.as_signed() if parts[-1].shape().signed else joined
