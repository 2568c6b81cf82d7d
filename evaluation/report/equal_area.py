"""How many more PEs the baseline could have for what MAX adds, and how much faster it would be at best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .added_blocks import plain

__all__ = ["COLUMN_BLOCKS", "EqualArea", "equal_area"]

COLUMN_BLOCKS = ("core.compute.array", "core.compute.accumulator", "core.drain.epilogue")
"""Blocks that a PE's logic is taken from: the array, and what each of its columns ends in."""


@dataclass(frozen=True)
class EqualArea:
    """By resource, what MAX adds and what a PE of the baseline takes, which has ``n_pes``."""

    added: Mapping[str, float]
    a_pe: Mapping[str, float]
    n_pes: int

    def more(self, resources: Sequence[str]) -> int:
        """PEs for what MAX adds of ``resources``, of which each must suffice; none for one that it adds none of."""
        return min(int(max(self.added[name], 0) / self.a_pe[name]) for name in resources)

    def speedup(self, more: int) -> float:
        """Of an array with ``more`` PEs, if all of them are always busy."""
        return 1 + more / self.n_pes


def equal_area(designs: Mapping[str, Mapping], logic: str, multiplier: str | None, n_pes: int) -> EqualArea:
    """From details of baseline and MAX, as :func:`adagp.synth.flow.run` has them.

    ``logic``, ``multiplier``: what the resources are called; multipliers are the array's alone, and None where they are
    logic too.
    """
    base, largest = designs["baseline"], designs["max"]
    blocks = plain(base["blocks"])
    a_pe = {logic: sum(blocks[block][logic] for block in COLUMN_BLOCKS) / n_pes}
    if multiplier:
        a_pe[multiplier] = blocks["core.compute.array"][multiplier] / n_pes
    return EqualArea({name: largest["resources"][name] - base["resources"][name] for name in a_pe}, a_pe, n_pes)
