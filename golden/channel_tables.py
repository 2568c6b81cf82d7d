"""Batch norm's tables, as spec/norm.py has them: numbers of channels to digits and back."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..spec.norm import DIGIT_BITS, Row, planes
from ..spec.numerics import operand_max

__all__ = ["pack_rows", "unpack_rows"]

_LIMIT = operand_max(16)


def pack_rows(row: Row, channels: Sequence[Mapping[str, int]]) -> np.ndarray:
    """The table ``[plane][channel]`` (int16) of the channels' numbers; an OverflowError for one with too many bits."""
    table = np.zeros((planes(row), len(channels)), np.int16)
    for name, (first, digits) in row.items():
        for at, channel in enumerate(channels):
            value = channel[name]
            for digit in range(digits - 1):
                table[first + digit, at] = value & (1 << DIGIT_BITS) - 1
                value >>= DIGIT_BITS
            if abs(value) > _LIMIT:
                raise OverflowError(f"{name} = {channel[name]} has more than {digits} digits")
            table[first + digits - 1, at] = value
    return table


def unpack_rows(row: Row, table: np.ndarray, *names: str) -> list[dict[str, int]]:
    """The numbers of each channel, by default all; others needn't be in the ``table``."""
    digits = table.tolist()
    channels: list[dict[str, int]] = [{} for _ in range(table.shape[1])]
    for name in names or row:
        first, count = row[name]
        for at, channel in enumerate(channels):
            value = digits[first + count - 1][at]
            for plane in reversed(digits[first : first + count - 1]):
                value = (value << DIGIT_BITS) | plane[at]
            channel[name] = value
    return channels
