"""On-chip memories in standard-cell designs, which libraries of gates don't have: area and energy by formula.

Area: a six-transistor cell takes 146 F^2 (CACTI 5.1, HP Laboratories HPL-2008-20, its table of cells), F being the
feature size; at 180 nm that is 4.7 square micrometres. These memories read and write at once, and the second port
doubles the area. Cells are half of a macro. Both factors are round figures, assumed.

Energy: reading 64 bits from 8 KiB takes 10 pJ, from 32 KiB 20 pJ, at 45 nm and 0.9 V (M. Horowitz, "Computing's energy
problem", ISSCC 2014, figure 1.1.9): twice for four times the words. The energy of a bit read is therefore proportional
to the root of the number of words, whatever the width: two memories side by side take as much as one twice as wide.
Energy also scales with the feature size and the square of the voltage. A write counts as a read. Leakage is left out:
at 180 nm it is far below the energy of accesses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

from ..errors import ToolError

__all__ = ["DEEP", "PORTS", "Memory"]

DEEP = 64
"""Memories with more words than this are macros. Smaller ones, such as queues, are flip-flops; ROMs are gates."""

CELL_F2 = 146.0
PORTS = 2.0
"""Ports of a memory, one that reads and one that writes: the accesses that one cycle can have."""
EFFICIENCY = 0.5
REFERENCE_PJ, REFERENCE_BITS, REFERENCE_BYTES = 10.0, 64, 8192
REFERENCE_NM, REFERENCE_VOLTS = 45.0, 0.9


@dataclass(frozen=True)
class Memory:
    """``words`` of ``width`` bits, in a process of ``nm`` nanometres at ``volts``.

    Where the process isn't known (None), area and energy are left out: they are 0.
    """

    words: int
    width: int
    nm: float | None = 180.0
    volts: float = 1.8

    @property
    def name(self) -> str:
        """Name by words and width."""
        return f"memory_{self.words}x{self.width}"

    @property
    def area_um2(self) -> float:
        """Area of the macro in square micrometres."""
        return self.words * self.width * CELL_F2 * ((self.nm or 0.0) * 1e-3) ** 2 * PORTS / EFFICIENCY

    @property
    def access_pj(self) -> float:
        """Picojoules that reading or writing one word takes."""
        depth = sqrt(self.words / (REFERENCE_BYTES * 8 / REFERENCE_BITS))
        process = (self.nm or 0.0) / REFERENCE_NM * (self.volts / REFERENCE_VOLTS) ** 2
        return REFERENCE_PJ * self.width / REFERENCE_BITS * depth * process

    @classmethod
    def of(cls, parameters: Mapping[str, str], nm: float | None, volts: float) -> "Memory":
        """Make one from the binary parameters of a Yosys cell; raises ToolError for ports that the model lacks."""
        words, width, reads, writes = (int(parameters[name], 2) for name in ("SIZE", "WIDTH", "RD_PORTS", "WR_PORTS"))
        if (reads, writes) != (1, 1):
            raise ToolError(
                f"a memory of {words} words of {width} bits has {reads} read and {writes} write ports:"
                " the model of memories is of one each"
            )
        return cls(words, width, nm, volts)
