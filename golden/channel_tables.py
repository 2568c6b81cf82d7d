"""Batch norm's tables as arrays, [plane][channel] of int16."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..spec import channel_tables
from ..spec.norm import Row, State

__all__ = ["pack_rows", "pack_state", "unpack_rows", "unpack_state"]


def pack_rows(row: Row, channels: Sequence[Mapping[str, int]]) -> np.ndarray:
    """See :func:`adagp.spec.channel_tables.pack_rows`."""
    return np.array(channel_tables.pack_rows(row, channels), np.int16)


def unpack_rows(row: Row, table: np.ndarray, *names: str) -> list[dict[str, int]]:
    """See :func:`adagp.spec.channel_tables.unpack_rows`."""
    return channel_tables.unpack_rows(row, table.tolist(), *names)


def pack_state(states: list[State]) -> np.ndarray:
    """The table of running statistics."""
    return np.array(channel_tables.pack_state(states), np.int16)


def unpack_state(table: np.ndarray) -> list[State]:
    """The running statistics of each channel."""
    return channel_tables.unpack_state(table.tolist())
