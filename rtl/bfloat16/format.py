"""Floating-point formats with 8-bit exponents: bfloat16 and IEEE 754 binary32, field by field."""

from amaranth import Cat
from amaranth.lib import data

__all__ = ["BFLOAT16", "FLOAT32", "Float", "selected"]


class Float(data.StructLayout):
    """A sign, a biased 8-bit exponent and ``fraction`` bits.

    An exponent of 0 means zero, whatever the fraction. One of 255 means infinity, or NaN with any fraction except 0.
    """

    def __init__(self, fraction: int):
        super().__init__({"fraction": fraction, "exponent": 8, "sign": 1})


BFLOAT16, FLOAT32 = Float(7), Float(23)


def selected(sign, number, *, nan, infinite, zero):
    """Bits of a FLOAT32: ``number`` (fraction and exponent), unless a flag demands a special value; earlier flags win.

    The only NaN is quiet and positive, with no other bit in its fraction.
    """
    keep, special = ~(nan | infinite | zero), nan | infinite
    fraction, exponent = number[:23] & keep.replicate(23), number[23:31] & keep.replicate(8)
    return Cat(fraction | nan.shift_left(22), exponent | special.replicate(8), sign & ~nan)
