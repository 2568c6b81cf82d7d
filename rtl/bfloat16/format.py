"""Floating-point formats of 8-bit exponents: bfloat16 and IEEE 754 binary32, field by field."""

from amaranth import Cat
from amaranth.lib import data

__all__ = ["BFLOAT16", "FLOAT32", "Float", "selected"]


class Float(data.StructLayout):
    """A sign, a biased 8-bit exponent and ``fraction`` bits.

    An exponent of 0 means zero, whatever the fraction; one of 255 infinity, or with any fraction but 0 a NaN.
    """

    def __init__(self, fraction: int):
        super().__init__({"fraction": fraction, "exponent": 8, "sign": 1})


BFLOAT16, FLOAT32 = Float(7), Float(23)


def selected(sign, number, *, nan, infinite, zero):
    """A FLOAT32's bits: ``number`` (fraction and exponent), unless a flag says otherwise; earlier flags go first.

    The only NaN there is, is quiet and positive, with a fraction of 0 otherwise.
    """
    keep, special = ~(nan | infinite | zero), nan | infinite
    fraction, exponent = number[:23] & keep.replicate(23), number[23:31] & keep.replicate(8)
    return Cat(fraction | nan.shift_left(22), exponent | special.replicate(8), sign & ~nan)
