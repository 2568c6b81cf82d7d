"""The end of the epilogue, with masks, bounds and slopes, element by element in plain integers."""

from dataclasses import dataclass
from fractions import Fraction

from adagp.spec.commands import CMode

__all__ = ["ElementEnd", "random_clamp"]


@dataclass(frozen=True)
class ElementEnd:
    """From a sum with everything added to the result, of operands with ``width`` bits."""

    width: int
    c_mode: int
    relu: int
    bound: int = 0
    shift: int = 0
    slope: int = 0

    def result(self, x: int, c: int, masked: bool) -> tuple[int, int | None, bool]:
        """The result, the bits of its magnitude (None of 0), and a bit: it was saturated. ``masked``: by C or D."""
        masks, limit = self.c_mode == CMode.MASK, (1 << self.width - 1) - 1
        bound = round(Fraction(self.bound) / Fraction(2) ** self.shift) if self.bound else 1 << 99
        bound = bound if bound <= limit else 1 << 99
        low = masked or (self.relu and x < 0)
        if (low and not self.slope) or (masks and c >= bound):
            x = 0
        bits = abs(x).bit_length() if x else None
        if self.bound and not masks:
            bits = None if bits is None else min(bits, 16 - self.shift)
            x = min(x, bound)
        out = max(-limit, min(limit, x))
        return round(Fraction(out * self.slope, 1 << 16)) if low and self.slope else out, bits, out != x


def random_clamp(rng, c_mode, exponent, width):
    """Fields: a bound around the largest operand of an exponent, one far away, or none; perhaps a slope."""
    if c_mode == CMode.ADD_MASK or rng.random() < 0.2:
        return {}
    place = exponent + width - 17 + rng.choice((0, 0, rng.randint(-3, 3), rng.randint(-60, 60)))
    return {
        "bound_mantissa": rng.choice((0, rng.getrandbits(16), 1 << 15 | rng.getrandbits(15))),
        "bound_exponent": max(-128, min(127, place)), "slope": rng.choice((0, 0, rng.getrandbits(16), 1 << 15)),
    }  # fmt: skip
