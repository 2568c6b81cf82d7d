"""Batch norm's tables, as :mod:`adagp.spec.norm` has them: numbers of channels to digits and back.

A table is a list of planes, each a list of a digit a channel.
"""

from collections.abc import Mapping, Sequence

from .norm import DIGIT_BITS, STATE_ROW, Number, Row, State, planes
from .numerics import operand_max

__all__ = ["pack_rows", "pack_state", "unpack_rows", "unpack_state"]

_LIMIT = operand_max(16)

Table = Sequence[Sequence[int]]


def pack_rows(row: Row, channels: Sequence[Mapping[str, int]]) -> list[list[int]]:
    """The table of the channels' numbers; an OverflowError for one with too many bits."""
    table = [[0] * len(channels) for _ in range(planes(row))]
    for name, (first, digits) in row.items():
        for at, channel in enumerate(channels):
            value = channel[name]
            for digit in range(digits - 1):
                table[first + digit][at] = value & (1 << DIGIT_BITS) - 1
                value >>= DIGIT_BITS
            if abs(value) > _LIMIT:
                raise OverflowError(f"{name} = {channel[name]} has more than {digits} digits")
            table[first + digits - 1][at] = value
    return table


def unpack_rows(row: Row, table: Table, *names: str) -> list[dict[str, int]]:
    """The numbers of each channel, by default all; others needn't be in the ``table``."""
    channels: list[dict[str, int]] = [{} for _ in table[0]]
    for name in names or row:
        first, count = row[name]
        for at, channel in enumerate(channels):
            value = table[first + count - 1][at]
            for plane in reversed(table[first : first + count - 1]):
                value = (value << DIGIT_BITS) | plane[at]
            channel[name] = value
    return channels


def pack_state(states: list[State]) -> list[list[int]]:
    """The table of running statistics."""
    values = [
        {
            "mean": state.mean.mantissa, "mean_exponent": state.mean.exponent,
            "variance": state.variance.mantissa, "variance_exponent": state.variance.exponent,
        }
        for state in states
    ]  # fmt: skip
    return pack_rows(STATE_ROW, values)


def unpack_state(table: Table) -> list[State]:
    """The running statistics of each channel."""
    return [
        State(Number(f["mean"], f["mean_exponent"]), Number(f["variance"], f["variance_exponent"]))
        for f in unpack_rows(STATE_ROW, table)
    ]  # fmt: skip
