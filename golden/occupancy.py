"""The first of a compute command's tiles that is too large for the on-chip memories.

Layouts. A tile of operand A lies in the scratchpad with its padding and, where a strided layer's gradient is read,
with the zeros between the gradient's elements: rows of ``wide`` positions, ``tall`` rows an image. Rows, images
and channels begin at addresses whose residue modulo the banks is given, so that vectors meet no bank twice.
"""

from dataclasses import dataclass

from ..spec.commands import Command, Opcode
from ..spec.config import Config
from ..spec.errors import ErrorCode
from ..spec.opcodes import BACKWARD, DEPTHWISE, GEMMS

__all__ = ["Misfit", "Tile", "misfit"]

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
    the result; ``counts``: tiles along each of these.
    """

    def __init__(self, command: Command):
        g = command
        back = g.opcode in BACKWARD
        self.weight, self.pool = g.opcode == Opcode.BACKWARD_WEIGHT, g.opcode not in GEMMS
        self.height, self.width = (g.h, g.w) if back else (g.oh, g.ow)
        self.inner, self.outer = (g.q, g.c) if back else (g.c, g.q)
        i_tile, o_tile = (g.qb, g.cb) if back else (g.cb, g.qb)
        self.images, self.rows = min(g.nb, g.n), min(g.yb, self.height)
        self.i = min(i_tile, self.inner)
        self.o = self.i if self.pool else min(o_tile, self.outer)
        self.taps = g.r * g.s
        step = 1 if back else g.stride
        self.grid_w, self.grid_h = (self.width - 1) * step + 1, (self.rows - 1) * step + 1
        self.wide, self.tall = self.grid_w + g.s - 1, self.grid_h + g.r - 1
        sizes = ((g.n, self.images), (self.height, self.rows), (self.inner, self.i), (self.outer, self.o))
        self.counts = [-(-whole // part) for whole, part in sizes]

    @property
    def pixels(self) -> int:
        """Positions of the result; of BACKWARD_WEIGHT, of what is summed up, without a stride's zeros."""
        return self.images * self.rows * self.width


def _align(value: int, residue: int, banks: int) -> int:
    return value + (residue - value) % banks


def _a_sizes(t: Tile, kernel_width: int, banks: int) -> list[int]:
    """Operand A's part of the scratchpad, and what its size is computed from."""
    if t.weight:  # [channel][image][row][column]; channels one residue apart, the others without gaps modulo banks
        row = _align(t.wide, t.grid_w, banks)
        image = _align(row * t.tall, t.grid_w * t.grid_h, banks)
        channel = _align(image * t.images, 1, banks)
        return [t.wide * t.tall, row * t.tall, image * t.images, channel * t.i]
    row = _align(t.wide * t.i, kernel_width * t.i, banks)  # [image][row][column][channel]
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


def misfit(command: Command, config: Config) -> Misfit | None:
    """The first tile that doesn't fit, of a command that :func:`.validate.validate` finds legal; None if all fit."""
    t = Tile(command)
    sizes = _a_sizes(t, command.s, config.banks)
    if max(sizes) >= _PRODUCT:
        return Misfit(ErrorCode.BAD_GEOMETRY, reads=False)
    if sizes[-1] > config.a_elements:
        return Misfit(ErrorCode.A_OVERFLOW, reads=False)
    if command.opcode in DEPTHWISE:
        code = _depthwise_misfit(t, command, config)
        return None if code == ErrorCode.NONE else Misfit(code)
    if command.opcode == Opcode.MAXPOOL_BACKWARD and sizes[-1] > config.b_elements:
        return Misfit(ErrorCode.B_OVERFLOW)
    vector = t.grid_w * t.grid_h * t.images if t.weight else t.taps * t.i
    filters = vector if command.opcode == Opcode.FORWARD else _align(vector, 1, config.banks)
    if not t.pool and filters * t.o > config.b_elements:
        return Misfit(ErrorCode.B_OVERFLOW)
    ones = command.bias if t.weight else 0
    single = t.counts[2] == 1
    code = _result(t, command, config, t.taps * t.i + ones * single if t.weight else t.pixels)
    if code != ErrorCode.NONE:
        return Misfit(code)
    if command.opcode == Opcode.FORWARD and command.bias and t.o > config.bias_elements:
        return Misfit(ErrorCode.BIAS_OVERFLOW)
    if ones and not single:  # the last channels come with the bias gradient
        last = t.inner - (t.counts[2] - 1) * t.i
        code = _result(t, command, config, t.taps * last + 1)
    return None if code == ErrorCode.NONE else Misfit(code, later=True)
