"""Shifting, rounding half to even and saturating: the one way from wide integers to narrow ones."""

import numpy as np

from ..spec.numerics import operand_max

__all__ = ["requantise", "requantise_each", "round_shift", "saturate"]


def round_shift(v: np.ndarray, shift: int) -> np.ndarray:
    """``v / 2^shift`` rounded half to even, for ``shift >= 0`` and int64 ``v`` with ``|v| < 2^61``."""
    if shift == 0:
        return v
    shift = min(shift, 62)  # everything is 0 from there on, and 1 << 63 would leave int64
    rounded = v >> shift
    rounded &= 1
    rounded += (1 << (shift - 1)) - 1
    rounded += v
    rounded >>= shift
    return rounded


def saturate(v: np.ndarray, limit: int) -> tuple[np.ndarray, int]:
    """``v`` cut to ``-limit..limit``, and how many elements that changed."""
    cut = np.clip(v, -limit, limit)
    return cut, int(np.count_nonzero(cut != v))


def requantise(v: np.ndarray, shift: int, width: int) -> np.ndarray:
    """``v / 2^shift`` rounded half to even (``v * 2^-shift`` if negative), saturated to ``width`` bits.

    ``v``: int64, ``|v| < 2^61``; ``width <= 62``. Saturation is symmetric: ±(2^(width-1) - 1).
    """
    limit = operand_max(width)
    if shift < 0:
        # One more than the last value that survives the shift is enough to saturate.
        reach = (limit >> min(-shift, width)) + 1
        v = np.clip(v, -reach, reach) << min(-shift, width)
    else:
        v = round_shift(v, shift)
    return np.clip(v, -limit, limit)


def requantise_each(v: np.ndarray, shifts: np.ndarray, width: int) -> np.ndarray:
    """:func:`requantise` with a shift of its own for each place along the last axis; ``|v| < 2^53``, ``width <= 62``.

    A double holds such a number, and its product with a power of two, exactly; ``rint`` rounds half to even.
    """
    limit, most = operand_max(width), float(1 << 62)
    scaled = v * np.ldexp(1.0, -shifts)
    np.rint(scaled, out=scaled)
    whole = np.clip(scaled, -most, most, out=scaled).astype(np.int64)
    return np.clip(whole, -limit, limit, out=whole)  # of integers: a double doesn't hold each limit
