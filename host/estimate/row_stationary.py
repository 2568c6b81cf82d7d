"""Row-stationary, a model without RTL: PEs that Eyeriss' mapping keeps at work on an array of this machine's size.

A *PE set* is a two-dimensional convolution of one channel of one image by one filter: each PE slides one filter row
over one input row, and the PEs of a column add up one output row (Chen et al., "Eyeriss: An Energy-Efficient
Reconfigurable Accelerator for Deep Convolutional Neural Networks", JSSC 2017, section IV). So a set is as high as the
filter and as wide as the output has rows:

================= ===================== =================== ===================
GEMM              a set's height        a set's width       products of a PE
================= ===================== =================== ===================
FORWARD           filter rows           rows of Y           W of Y x filter's S
BACKWARD_DATA     filter rows           rows of dX          W of dX x filter's S
BACKWARD_WEIGHT   rows of dY, as taps   rows of the filter  W of dY x filter's S
================= ===================== =================== ===================

A set that the array is too small for is *folded* into the fewest pieces that fit, of even sizes. Pieces, of any images,
channels and filters, are *replicated* over the array as often as whole ones fit. A *pass* of them takes the products of
a PE in cycles, and passes follow each other without a pause. Residue classes of strided layers are convolutions of
their own. Scratchpads and the network that feeds the PEs never limit a pass, which is optimistic.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...spec.commands import Command
from ...spec.opcodes import GEMMS
from ..compiler.occupancy import Shape

__all__ = ["Sets", "Work", "sets_of", "work_of"]


@dataclass(frozen=True)
class Sets:
    """``number`` PE sets of ``height`` x ``width`` PEs, each of which makes ``products``."""

    number: int
    height: int
    width: int
    products: int

    @property
    def macs(self) -> int:
        """Products of all sets."""
        return self.number * self.height * self.width * self.products

    def cycles(self, rows: int, cols: int) -> int:
        """Cycles on an array of ``rows`` x ``cols`` PEs."""
        folds = [-(-self.height // rows), -(-self.width // cols)]
        high, wide = (-(-size // pieces) for size, pieces in zip((self.height, self.width), folds, strict=True))
        at_once = (rows // high) * (cols // wide)
        return -(-self.number * folds[0] * folds[1] // at_once) * self.products


class Work(NamedTuple):
    """A command on the array: its products and cycles, and those of its longest pass."""

    macs: int
    cycles: int
    longest: int

    def fields(self, macs: int) -> dict[str, int]:
        """Fields that a tile's descriptor has besides: cycles of its ``macs``, as of the command's, and of a pass."""
        cycles = -(-macs * self.cycles // self.macs)
        return {"set_cycles": cycles, "set_pass": min(cycles, self.longest)}


def sets_of(command: Command) -> Iterator[Sets]:
    """The PE sets of a GEMM, those of residue classes apart; a bias gradient's slide over a row of ones."""
    whole = Shape.of(command)
    for shape, times in whole.parts or ((whole, 1),):
        number = times * shape.n * shape.ic * shape.oc
        if shape.weight:
            yield Sets(number, shape.out_h, shape.r, shape.out_w * shape.s)
            if shape.bias:
                yield Sets(times * shape.n * shape.oc, shape.out_h, 1, shape.out_w)
        else:
            yield Sets(number, shape.r, shape.out_h, shape.out_w * shape.s)


def work_of(command: Command, rows: int, cols: int) -> Work | None:
    """The work of a command on an array of ``rows`` x ``cols`` PEs; None if the array has no part in it."""
    sets = [each for each in sets_of(command) if each.macs] if command.opcode in GEMMS else []
    if not sets:
        return None
    cycles = sum(each.cycles(rows, cols) for each in sets)
    return Work(sum(each.macs for each in sets), cycles, max(each.products for each in sets))
