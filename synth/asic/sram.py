"""On-chip memories in standard-cell designs, which libraries of gates don't have: area and energy by formula.

The formulae are fitted to the two-port macros of IHP's open SG13G2 process, of 130 nm (IHP-Open-PDK,
``libs.ref/sg13g2_sram``: sizes by their data sheets, energies by ``A_CLK`` in their Liberty files, typical at 1.2 V). A
macro's height grows with its words and its width with its bits; so do the energies of a read and of a write. From
64 x 22 to 1024 x 32, areas are within 4 % of the macros', and the mean of a read and a write within 3 %. None with two
ports is larger there, so larger memories are several macros. Of those that share words between them, one is accessed at
a time.

Areas scale with the square of the feature size, energies with the feature size and the square of the voltage. An access
counts as the mean of a read and a write. The macros' pins for data and addresses are left out; those for data would
add some 5 % to a write. So is leakage: 64 x 32 leaks 40 nW, far below the power of accesses.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import ToolError

__all__ = ["LEAST", "PORTS", "Memory"]

LEAST = 64
"""Memories with at least so many words are macros, as SG13G2's smallest. Smaller ones, such as queues, are flip-flops;
ROMs are gates."""
MOST_WORDS, MOST_BITS = 1024, 32
"""Those of the largest macro with two ports."""

PORTS = 2.0
"""Ports of a memory, one that reads and one that writes: the accesses that one cycle can have."""
HEIGHT_UM, HEIGHT_UM_A_WORD = 54.17, 0.32344
WIDTH_UM, WIDTH_UM_A_BIT = 128.0, 17.68
READ_PJ, READ_PJ_A_WORD, READ_PJ_A_BIT, READ_PJ_A_WORD_AND_BIT = 1.179, 0.00521, 0.5468, 0.000737
WRITE_PJ, WRITE_PJ_A_WORD, WRITE_PJ_A_BIT, WRITE_PJ_A_WORD_AND_BIT = 2.435, 0.00455, 0.6893, 0.000914
REFERENCE_NM, REFERENCE_VOLTS = 130.0, 1.2


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
    def _macros(self) -> tuple[int, int, int, int]:
        """Macros above each other and side by side; words and bits of each."""
        above, beside = -(-self.words // MOST_WORDS), -(-self.width // MOST_BITS)
        return above, beside, -(-self.words // above), -(-self.width // beside)

    @property
    def area_um2(self) -> float:
        """Area of the macros in square micrometres."""
        above, beside, words, bits = self._macros
        height, width = HEIGHT_UM + HEIGHT_UM_A_WORD * words, WIDTH_UM + WIDTH_UM_A_BIT * bits
        return above * beside * height * width * ((self.nm or 0.0) / REFERENCE_NM) ** 2

    @property
    def access_pj(self) -> float:
        """Picojoules that reading or writing one word takes, the mean of both."""
        _, beside, words, bits = self._macros
        read = READ_PJ + READ_PJ_A_WORD * words + bits * (READ_PJ_A_BIT + READ_PJ_A_WORD_AND_BIT * words)
        write = WRITE_PJ + WRITE_PJ_A_WORD * words + bits * (WRITE_PJ_A_BIT + WRITE_PJ_A_WORD_AND_BIT * words)
        process = (self.nm or 0.0) / REFERENCE_NM * (self.volts / REFERENCE_VOLTS) ** 2
        return beside * (read + write) / 2 * process

    @classmethod
    def of(cls, parameters: Mapping[str, str], nm: float | None, volts: float) -> "Memory":
        """Make one from the binary parameters of a Yosys cell; raises ToolError for ports that the model lacks."""
        words, width, reads, writes = (int(parameters[name], 2) for name in ("SIZE", "WIDTH", "RD_PORTS", "WR_PORTS"))
        if (reads, writes) != (1, 1):
            raise ToolError(
                f"a memory of {words} words of {width} bits has {reads} read and {writes} write ports:"
                " the model of memories is of one each"
            )
        if parameters.get("RD_CLK_ENABLE", "1") != "1":
            raise ToolError(f"a memory of {words} words of {width} bits is read without a clock; a macro needs one")
        return cls(words, width, nm, volts)
