"""The exponent table, the batch's maxima (shadow) and the rule that turns one into the other."""

import numpy as np

from ..spec.config import Config
from ..spec.numerics import EXP_MAX, EXP_MIN, HEADROOM_BITS, ZERO_STEP

__all__ = ["Exponents", "rule", "smoothed"]

SMOOTHING = 3
"""A layer's scale goes 2^-SMOOTHING of the way to where the last batch's gradients were."""


def rule(old: int, top: int | None, operand_width: int) -> int:
    """The exponent for a tensor whose largest result ended at bit ``top`` (None: all were zero), ``old`` until now."""
    new = old - ZERO_STEP if top is None else top + HEADROOM_BITS - (operand_width - 1)
    return max(EXP_MIN, min(EXP_MAX, new))


def smoothed(cur: int, fraction: int, top: int) -> tuple[int, int]:
    """A scale, whose value is ``cur`` and ``fraction`` / 256, after a batch whose own was ``top``."""
    value = (cur << 8) + fraction
    value += ((top << 8) - value) >> SMOOTHING
    return max(EXP_MIN, min(EXP_MAX, value >> 8)), value & 0xFF


class Exponents:
    """``cur``, ``next`` and ``has_next`` of every tensor, and what was seen of it in this batch.

    Of a tensor that ``is_scale`` there are no mantissas: ``cur`` is the power of two by which a layer's gradients are
    divided before they are predicted, ``next`` its fraction in 0..255.
    """

    def __init__(self, config: Config):
        self.operand_width = config.operand_width
        self.cur = np.zeros(config.n_tensors, np.int64)
        self.next = np.zeros(config.n_tensors, np.int64)
        self.has_next = np.zeros(config.n_tensors, bool)
        self.is_scale = np.zeros(config.n_tensors, bool)
        self.shadow: dict[int, int | None] = {}

    def track(self, tensor: int, top: int | None) -> None:
        """Take note of a result's top bit (with exponent), None if the result was all zero."""
        tops = [x for x in (self.shadow.get(tensor), top) if x is not None]
        self.shadow[tensor] = max(tops, default=None)

    def commit(self, left_out: int = 0) -> None:
        """End of a batch: every tensor seen but the last ``left_out`` gets its exponents for the next one."""
        for tensor in [number for number in self.shadow if number < len(self.cur) - left_out]:
            top = self.shadow.pop(tensor)
            if self.is_scale[tensor]:
                if top is not None:
                    self.cur[tensor], self.next[tensor] = smoothed(int(self.cur[tensor]), int(self.next[tensor]), top)
                continue
            old = self.next[tensor] if self.has_next[tensor] else self.cur[tensor]
            new = rule(int(old), top, self.operand_width)
            if self.has_next[tensor]:
                self.cur[tensor], self.next[tensor] = old, new
            else:
                self.cur[tensor] = new

    def calibrate(self, tensors: list[int]) -> None:
        """Adjust the ``tensors`` that a command tracks, between its dry pass and its real one."""
        for tensor in tensors:
            if tensor in self.shadow and self.is_scale[tensor]:
                top = self.shadow.pop(tensor)
                if top is not None:
                    self.cur[tensor], self.next[tensor] = max(EXP_MIN, min(EXP_MAX, top)), 0
            elif tensor in self.shadow:
                table = self.next if self.has_next[tensor] else self.cur
                table[tensor] = rule(int(table[tensor]), self.shadow.pop(tensor), self.operand_width)
