"""Batch norm's rows in memory: the constants of a channel and its running statistics, in words of 16 bits."""

from .numerics import operand_max

__all__ = [
    "BACKWARD_ROW", "FORWARD_ROW", "LEAST_EXPONENT", "MAX_VALUES", "MOMENTUM_BITS", "ROW_WORDS", "STATE_ROW",
    "STATE_WORDS", "field_bits", "pack_row", "unpack_row",
]  # fmt: skip

WORD = 16
ROW_WORDS, STATE_WORDS = 16, 8
"""Words of a channel's constants, and of its running statistics."""

FORWARD_ROW = {
    "a": (0, 2), "a_exponent": (2, 1), "b": (3, 3), "inverse": (6, 2), "inverse_exponent": (8, 1), "sum": (9, 3),
}  # fmt: skip
"""Constants of the forward pass, each with its first word and its words; signed. The other words are 0."""

BACKWARD_ROW = {"p": (0, 2), "p_exponent": (2, 1), "r": (3, 3), "q": (6, 2), "q_shift": (8, 1)}
"""Constants of the backward pass."""

STATE_ROW = {"mean": (0, 2), "mean_exponent": (2, 1), "variance": (3, 2), "variance_exponent": (5, 1)}
"""Running statistics: value = mantissa * 2^exponent."""

LEAST_EXPONENT = -operand_max(WORD) - 1
"""Exponent of a running statistic that is 0."""

MAX_VALUES = 1 << 24
"""Most values of a channel in a batch."""

MOMENTUM_BITS = 16
"""Fraction bits of the momentum of running statistics."""


def field_bits(row: dict[str, tuple[int, int]], name: str) -> tuple[int, int]:
    """First bit and number of bits of a row's field."""
    first, words = row[name]
    return first * WORD, words * WORD


def pack_row(row: dict[str, tuple[int, int]], values: dict[str, int], words: int) -> list[int]:
    """The signed words of a row."""
    packed = [0] * words
    for name, (first, count) in row.items():
        for at in range(count):
            word = values[name] >> WORD * at & 0xFFFF
            packed[first + at] = word - (word >> WORD - 1 << WORD)
        assert values[name] >> count * WORD - 1 in (0, -1), f"{name} = {values[name]} doesn't fit {count} words"
    return packed


def unpack_row(row: dict[str, tuple[int, int]], words) -> dict[str, int]:
    """The fields of a row."""
    fields = {}
    for name, (first, count) in row.items():
        value = sum((int(words[first + at]) & 0xFFFF) << WORD * at for at in range(count))
        fields[name] = value - (value >> count * WORD - 1 << count * WORD)
    return fields
