"""How many more PEs the baseline could have for what MAX adds, and how much faster it would be at best."""

from collections.abc import Mapping
from dataclasses import dataclass

from .added_blocks import plain

__all__ = ["COLUMN_BLOCKS", "EqualArea", "equal_area"]

COLUMN_BLOCKS = ("core.compute.array", "core.compute.accumulator", "core.drain.epilogue")
"""Blocks that a PE's LUTs are taken from: the array, and what each of its columns ends in."""


@dataclass(frozen=True)
class EqualArea:
    """LUTs and multipliers that MAX adds, and those that a PE of the baseline takes, which has ``n_pes``."""

    luts: int
    multipliers: int
    luts_a_pe: float
    multipliers_a_pe: float
    n_pes: int

    @property
    def by_luts(self) -> int:
        """More PEs for the LUTs alone."""
        return int(self.luts / self.luts_a_pe)

    @property
    def by_both(self) -> int:
        """More PEs for LUTs and multipliers, whichever are fewer."""
        return min(self.by_luts, int(self.multipliers / self.multipliers_a_pe))

    def speedup(self, more: int) -> float:
        """Of an array with ``more`` PEs, if all of them are always busy."""
        return 1 + more / self.n_pes


def equal_area(designs: Mapping[str, Mapping], multiplier: str, n_pes: int) -> EqualArea:
    """From details of baseline and MAX, as :func:`adagp.synth.flow.run` has them.

    ``multiplier``: what the resource is called.
    """
    base, largest = designs["baseline"], designs["max"]
    blocks = plain(base["blocks"])
    return EqualArea(
        luts=largest["resources"]["lut"] - base["resources"]["lut"],
        multipliers=largest["resources"][multiplier] - base["resources"][multiplier],
        luts_a_pe=sum(blocks[block]["lut"] for block in COLUMN_BLOCKS) / n_pes,
        multipliers_a_pe=blocks["core.compute.array"][multiplier] / n_pes,
        n_pes=n_pes,
    )
