"""Residue classes of a strided layer: the parts of its backward GEMMs, each of stride 1, that meet no zeros.

With stride t, rows p, p + t, p + 2t, ... of X with its padding meet rows p, p + t, ... of the kernel alone, and columns
likewise. A BACKWARD_DATA runs class after class of X's pixels, a BACKWARD_WEIGHT class after class of taps.
"""

from typing import NamedTuple

from .commands import Command, Opcode

__all__ = ["Residue", "residues"]


class Residue(NamedTuple):
    """A residue class of rows (or columns): those of X, those of the kernel, and those of the padding before X."""

    pixels: int
    taps: int
    padding: int


def _along(size: int, kernel: int, pad: int, stride: int, by_taps: bool) -> list[Residue]:
    """Classes along one axis, in the order in which the machine takes them."""
    first = range(min(stride, kernel)) if by_taps else [(pad + at) % stride for at in range(min(stride, size))]
    found = []
    for place in first:
        padding = len(range(place, pad, stride))
        pixels = len(range(place, pad + size, stride)) - padding
        found.append(Residue(pixels, len(range(place, kernel, stride)), padding))
    return found


def residues(command: Command) -> tuple[list[Residue], list[Residue]]:
    """Classes of a backward GEMM's rows and of its columns, in order; just one each if the stride is 1.

    Each pair is a part of the command; columns change first.
    """
    g = command
    by_taps = g.opcode == Opcode.BACKWARD_WEIGHT
    return (
        _along(g.h, g.r, g.pad_y, g.stride, by_taps),
        _along(g.w, g.s, g.pad_x, g.stride, by_taps),
    )
