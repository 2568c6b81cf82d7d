"""The first of a compute command's tiles that is too large for the on-chip memories.

Layouts. A tile of operand A lies in the scratchpad with its padding and, where a strided pool's gradient is read,
with the zeros between the gradient's elements: rows of ``wide`` positions, ``tall`` rows an image. Rows, images
and channels begin at addresses whose residue modulo the banks is given, so that vectors meet no bank twice. A strided
layer's backward GEMM runs residue class by residue class, each in tiles of its own.
"""

from dataclasses import dataclass, replace
from itertools import product

from ..spec.commands import Command, Opcode
from ..spec.config import Config
from ..spec.errors import ErrorCode
from ..spec.norm import APPLY_PLANES, BACKWARD_ROW, SUMS_ROW, TABLES, planes
from ..spec.opcodes import BACKWARD, DEPTHWISE, GEMMS, NORMS
from ..spec.residues import Residue, residues

__all__ = ["Misfit", "Tile", "classes_of", "misfit"]

_PRODUCT = 1 << 30


@dataclass(frozen=True)
class Misfit:
    """A tile that doesn't fit: the error, whether anything was read before, and whether it is a later tile."""

    code: ErrorCode
    reads: bool = True
    later: bool = False


class Tile:
    """Extents of a command's first tile, which is its largest but for a bias gradient's row.

    ``images``, ``rows`` (of what is written or, for BACKWARD_WEIGHT, of Y), ``i`` channels of operand A, ``o`` of
    the result; ``counts``: tiles along each of these, and residue classes. With ``residue``, of rows and of columns,
    those of this class alone.
    """

    def __init__(self, command: Command, residue: tuple[Residue, Residue] | None = None):
        g = command
        back = g.opcode in BACKWARD
        self.weight, self.pool = g.opcode == Opcode.BACKWARD_WEIGHT, g.opcode not in GEMMS
        rows, columns = classes_of(g)
        row, column = residue or (rows[0], columns[0])
        self.height: int = row.pixels if back else g.oh
        self.width: int = column.pixels if back else g.ow
        self.inner, self.outer = (g.q, g.c) if back else (g.c, g.q)
        i_tile, o_tile = (g.qb, g.cb) if back else (g.cb, g.qb)
        self.images, self.rows = min(g.nb, g.n), min(g.yb, self.height)
        self.i = min(i_tile, self.inner)
        self.o = self.i if self.pool else min(o_tile, self.outer)
        self.kernel_width, self.taps = column.taps, row.taps * column.taps
        step = 1 if back or self.weight else g.stride
        self.wide, self.tall = (self.width - 1) * step + column.taps, (self.rows - 1) * step + row.taps
        if g.opcode in TABLES:
            self.images, self.rows = g.n, self.height
        sizes = ((g.n, self.images), (self.height, self.rows), (self.inner, self.i), (self.outer, self.o))
        self.counts = [*(-(-whole // part) for whole, part in sizes), len(rows) * len(columns)]

    @property
    def pixels(self) -> int:
        """Positions of the result; of BACKWARD_WEIGHT, of what is summed up."""
        return self.images * self.rows * self.width


def _align(value: int, residue: int, banks: int) -> int:
    return value + (residue - value) % banks


def classes_of(g: Command) -> tuple[list[Residue], list[Residue]]:
    """Residue classes of rows and of columns; one each of commands that don't run by them."""
    if g.opcode in (Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT):
        return residues(g)
    return [Residue(g.h, g.r, g.pad_y)], [Residue(g.w, g.s, g.pad_x)]


def _a_sizes(t: Tile, banks: int) -> list[int]:
    """Operand A's part of the scratchpad, and what its size is computed from."""
    if t.weight:  # [channel][image][row][column]; channels one residue apart, the others without gaps modulo banks
        row = _align(t.wide, t.width, banks)
        image = _align(row * t.tall, t.width * t.rows, banks)
        channel = _align(image * t.images, 1, banks)
        return [t.wide * t.tall, row * t.tall, image * t.images, channel * t.i]
    row = _align(t.wide * t.i, t.kernel_width * t.i, banks)  # [image][row][column][channel]
    return [t.wide * t.tall, t.wide * t.i, row * t.tall, row * t.tall * t.images]


def _result(t: Tile, command: Command, config: Config, rows: int) -> ErrorCode:
    """Accumulator and C scratchpad for a result of ``rows`` positions of operand A by ``t.o`` channels."""
    stationary, stream = (rows, t.o) if command.swap else (t.o, rows)
    if not t.pool and stream * -(-stationary // config.cols) > config.acc_depth:
        return ErrorCode.ACC_OVERFLOW
    if t.weight:
        used = (rows if command.swap else _align(rows, 1, config.banks)) * t.o
    else:
        used = (_align(t.o, 1, config.banks) if command.swap and not t.pool else t.o) * rows
    if command.opcode == Opcode.MAXPOOL:
        used *= 2
    return ErrorCode.C_OVERFLOW if used > config.c_elements else ErrorCode.NONE


def _depthwise_misfit(t: Tile, command: Command, config: Config) -> ErrorCode:
    """Memories beside operand A's for a tile of a depthwise convolution."""
    sums = command.opcode == Opcode.DEPTHWISE_BACKWARD_WEIGHT
    residue = -1 if command.opcode == Opcode.DEPTHWISE_BACKWARD_DATA else 1
    filters = t.pixels * t.o if sums else t.taps * _align(t.o, residue, config.banks)
    if filters > config.b_elements:
        return ErrorCode.B_OVERFLOW
    elements = t.taps + command.bias
    if sums and -(-t.o // config.rows) * elements > config.kept_words:
        return ErrorCode.ACC_OVERFLOW
    if t.o * (_align(elements, 1, config.banks) if sums else t.pixels) > config.c_elements:
        return ErrorCode.C_OVERFLOW
    biases = t.o if command.opcode == Opcode.DEPTHWISE and command.bias else 0
    return ErrorCode.BIAS_OVERFLOW if biases > config.bias_words * config.rows else ErrorCode.NONE


def _norm_misfit(t: Tile, command: Command, config: Config) -> ErrorCode:
    """Memories beside operand A's for a tile of batch norm."""
    sums = command.opcode == Opcode.NORM_SUMS
    vectors = t.pixels if sums else APPLY_PLANES
    if command.opcode == Opcode.NORM_APPLY_BACKWARD:
        vectors = planes(BACKWARD_ROW) + t.pixels
    if t.o * vectors > config.b_elements:
        return ErrorCode.B_OVERFLOW
    if t.o * (planes(SUMS_ROW) if sums else t.pixels) > config.c_elements:
        return ErrorCode.C_OVERFLOW
    kept = len(SUMS_ROW) * -(-t.o // config.rows) if sums else 0
    return ErrorCode.ACC_OVERFLOW if kept > config.kept_words else ErrorCode.NONE


def _table_misfit(t: Tile, command: Command, config: Config) -> Misfit | None:
    """A and C for a tile of tables; nothing is read before both are checked."""
    given, made = (count * t.o for count in TABLES[command.opcode])
    if given > config.a_elements:
        return Misfit(ErrorCode.A_OVERFLOW, reads=False)
    return Misfit(ErrorCode.C_OVERFLOW, reads=False) if made > config.c_elements else None


def misfit(command: Command, config: Config) -> Misfit | None:
    """The first tile that doesn't fit, of a command that :func:`.validate.validate` finds legal; None if all fit."""
    if command.opcode in TABLES:
        return _table_misfit(Tile(command), command, config)
    rows, columns = (dict.fromkeys(lines) for lines in classes_of(command))
    for place, (row, column) in enumerate(product(rows, columns)):
        found = _misfit(Tile(command, (row, column)), command, config, ones=command.bias if place == 0 else 0)
        if found:
            return replace(found, reads=found.reads or place > 0, later=found.later or place > 0)
    return None


def _misfit(t: Tile, command: Command, config: Config, ones: int) -> Misfit | None:
    """The first of the tiles like ``t``, the first; ``ones``: BACKWARD_WEIGHT gives bias gradients too."""
    sizes = _a_sizes(t, config.banks) if t.taps else [t.wide * t.tall]
    if max(sizes) >= _PRODUCT:
        return Misfit(ErrorCode.BAD_GEOMETRY, reads=False)
    if t.taps and sizes[-1] > config.a_elements:
        return Misfit(ErrorCode.A_OVERFLOW, reads=False)
    if command.opcode in NORMS:
        code = _norm_misfit(t, command, config)
        return None if code == ErrorCode.NONE else Misfit(code)
    if command.opcode in DEPTHWISE:
        code = _depthwise_misfit(t, command, config)
        return None if code == ErrorCode.NONE else Misfit(code)
    if command.opcode == Opcode.MAXPOOL_BACKWARD and sizes[-1] > config.b_elements:
        return Misfit(ErrorCode.B_OVERFLOW)
    vector = t.pixels if t.weight else t.taps * t.i
    filters = vector if command.opcode == Opcode.FORWARD else _align(vector, 1, config.banks)
    if not t.pool and t.taps and filters * t.o > config.b_elements:
        return Misfit(ErrorCode.B_OVERFLOW)
    ones = ones if t.weight else 0
    single = t.counts[2] == 1
    code = _result(t, command, config, t.taps * t.i + ones * single if t.weight else t.pixels)
    if code != ErrorCode.NONE:
        return Misfit(code, reads=t.taps > 0)
    if command.opcode == Opcode.FORWARD and command.bias and t.o > config.bias_elements:
        return Misfit(ErrorCode.BIAS_OVERFLOW)
    if ones and not single:  # the last channels come with the bias gradient
        last = t.inner - (t.counts[2] - 1) * t.i
        code = _result(t, command, config, t.taps * last + 1)
    return None if code == ErrorCode.NONE else Misfit(code, later=True)
