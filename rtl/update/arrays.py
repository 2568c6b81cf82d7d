"""The arrays of an update, as reader, lanes and writer share them: element sizes, groups, chunks."""

from amaranth import signed
from amaranth.lib import data

from ...spec.config import Config

__all__ = ["MOMENT_BYTES", "SLOTS", "GroupLayout", "array_bytes"]

SLOTS = 2
"""Chunks that each side of the update unit has room for."""

MOMENT_BYTES = 8
"""Bytes of a second moment."""


def array_bytes(config: Config) -> dict[str, int]:
    """Bytes per element of an update's arrays: gradient, operand copy, low halves, momentum."""
    return {"g": config.operand_bytes, "hi": config.operand_bytes, "lo": 2, "v": 4}


def GroupLayout(config: Config) -> data.StructLayout:
    """``update_lanes`` weights; lanes without ``mask`` (at the end of the arrays) hold nothing.

    ``last`` marks the last group of a chunk, ``final`` that of the arrays.
    """
    lanes = config.update_lanes
    arrays = {
        name: data.ArrayLayout(signed(8 * size), lanes) for name, size in array_bytes(config).items()
    }  # fmt: skip
    return data.StructLayout({**arrays, "mask": lanes, "last": 1, "final": 1})
