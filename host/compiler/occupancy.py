"""Occupancy of the scratchpads by a command's tiles, in closed form: the tile program's sums without running it.

The functions take tile extents as integers, or as numpy arrays for many mappings at once. Names follow
:mod:`adagp.spec.microcode.program`: ``i`` are the channels of the tensor that goes through the A scratchpad, ``o``
those of the one written (BACKWARD_WEIGHT: input channels and filters).
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

import numpy as np

from ...spec.commands import Command, Opcode
from ...spec.config import Config
from ...spec.opcodes import BACKWARD, BACKWARD_WEIGHTS, DEPTHWISE, GEMMS
from ...spec.residues import residues

__all__ = ["LIMITS", "Extent", "Shape", "limits", "occupancy"]

LIMITS = ("A scratchpad", "B scratchpad", "C scratchpad", "accumulator", "bias memory")
"""Memories that a tile can exceed, in the order of :func:`occupancy`."""

_SPLIT = (Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT)


def align(value, residue, banks):
    """Least number >= value that is congruent to residue modulo banks."""
    return value + (residue - value) % banks


class Extent:
    """A dimension of ``size`` cut into tiles of ``tile``; the last may be smaller."""

    def __init__(self, size, tile):
        self.size = size
        self.tile = np.minimum(tile, size)
        self.count = -(-size // self.tile)
        self.last = size - (self.count - 1) * self.tile

    def total(self, function):
        """Sum of ``function(extent)`` over the tiles."""
        return (self.count - 1) * function(self.tile) + function(self.last)


@dataclass(frozen=True)
class Shape:
    """A compute command's geometry in the direction of its data: what is read (``in``) and written (``out``)."""

    opcode: Opcode
    n: int
    ic: int
    oc: int
    in_h: int
    in_w: int
    out_h: int
    out_w: int
    r: int
    s: int
    step: int
    dilate: int
    pad_y: int
    pad_x: int
    bias: int
    c_mode: int
    in_pitch: int = 0
    out_pitch: int = 0
    """Operands from a pixel of what is read, and of what is written, to the next one; 0: without gaps.

    BACKWARD_WEIGHT: of X and of Y, whose pixels are both read."""
    drops: bool = False
    """Results are drawn at random."""
    strided: bool = False
    """Pixels of X, and taps, lie a stride apart: those of a residue class."""
    parts: "tuple[tuple[Shape, int], ...]" = ()
    """Residue classes as which a strided layer's backward GEMM runs, each with the number of times that it occurs."""

    @classmethod
    def of(cls, c: Command) -> "Shape":
        """The shape of command ``c``; its tile fields don't matter."""
        opcode = Opcode.AVGPOOL if c.opcode == Opcode.REORGANISE else c.opcode  # of sums that are there already
        common = {"opcode": opcode, "n": c.n, "r": c.r, "s": c.s, "bias": c.bias, "c_mode": c.c_mode}
        x_pitch, y_pitch = c.x_pitch if c.x_pitch > c.c else 0, c.y_pitch if c.y_pitch > c.q else 0
        parts = _parts(c, common, x_pitch, y_pitch) if c.opcode in _SPLIT and c.stride > 1 else ()
        if c.opcode in BACKWARD:
            return cls(
                ic=c.q, oc=c.c, in_h=c.oh, in_w=c.ow, out_h=c.h, out_w=c.w, step=1, dilate=c.stride,
                pad_y=c.r - 1 - c.pad_y, pad_x=c.s - 1 - c.pad_x, in_pitch=y_pitch, out_pitch=x_pitch,
                parts=parts, **common,
            )  # fmt: skip
        return cls(
            ic=c.c, oc=c.q, in_h=c.h, in_w=c.w, out_h=c.oh, out_w=c.ow, step=c.stride, dilate=1,
            pad_y=c.pad_y, pad_x=c.pad_x, in_pitch=x_pitch, out_pitch=y_pitch, parts=parts,
            drops=c.opcode == Opcode.AVGPOOL and c.momentum > 0, **common,
        )  # fmt: skip

    @property
    def weight(self) -> bool:
        """True for a GEMM's weight gradient."""
        return self.opcode == Opcode.BACKWARD_WEIGHT

    @property
    def pool(self) -> bool:
        """True for commands of the pool unit, which write as many channels as they read."""
        return self.opcode not in GEMMS

    @property
    def depthwise(self) -> bool:
        return self.opcode in DEPTHWISE

    @property
    def over_pixels(self) -> bool:
        """True if tiles of images and rows are parts of one sum."""
        return self.opcode in BACKWARD_WEIGHTS

    @property
    def taps(self) -> int:
        return self.r * self.s

    @property
    def wide(self) -> int:
        """Columns of the padded, dilated input that a row of windows covers."""
        return (self.out_w - 1) * self.step + self.s

    @property
    def columns(self) -> int:
        """Columns of the input that are read."""
        return min(self.in_w, -(-max(0, self.wide - self.pad_x) // self.dilate)) - max(0, -self.pad_x)

    @property
    def clears(self) -> bool:
        """True if tiles hold zeros (padding, dilation) that must be written first."""
        return self.pad_y > 0 or self.pad_x > 0 or self.dilate > 1

    @property
    def reduction(self) -> int:
        """Length of the sums of a GEMM or a depthwise convolution."""
        if self.over_pixels:
            return self.n * self.out_h * self.out_w
        return self.taps * (1 if self.depthwise else self.ic)

    @property
    def elements(self) -> int:
        """Elements of a depthwise filter's gradient."""
        return self.taps + self.bias

    def shares_columns(self, config: Config) -> bool:
        """True of a depthwise convolution whose columns the pool unit walks once for all windows that they are in."""
        return 2 <= self.s <= 3 and self.step < self.s and self.r <= config.tap_rows

    def tall(self, y):
        """Rows of the padded, dilated input that ``y`` rows of windows cover."""
        return (y - 1) * self.step + self.r

    def rows_read(self, y: int) -> int:
        """Input rows read for one image in tiles of ``y`` output rows, halos repeated."""
        rows = 0
        for y0 in range(0, self.out_h, y):
            first = y0 * self.step - self.pad_y
            low = -(-max(0, first) // self.dilate)
            end = first + self.tall(min(y, self.out_h - y0))
            high = min(self.in_h, -(-max(0, end) // self.dilate))
            rows += max(0, high - low)
        return rows

    def gemm(self, n, y, i, o, swap):
        """(reduction length, stream length, stationary length) of a tile."""
        if self.weight:
            n_k, n_a = n * y * self.out_w, self.taps * i + self.bias
        else:
            n_k, n_a = self.taps * i, n * y * self.out_w
        return (n_k, o, n_a) if swap else (n_k, n_a, o)


def _parts(c: Command, common: dict, x_pitch: int, y_pitch: int) -> tuple[tuple[Shape, int], ...]:
    """Residue classes of a strided layer's backward GEMM; only the first takes the bias gradients."""
    found: Counter[Shape] = Counter()
    lines, columns = (Counter(classes) for classes in residues(c))
    for place, ((row, many), (column, more)) in enumerate(product(lines.items(), columns.items())):
        sizes = common | {
            "ic": c.c, "oc": c.q, "r": row.taps, "s": column.taps, "step": 1, "dilate": 1, "strided": True,
            "in_h": row.pixels, "in_w": column.pixels, "out_h": c.oh, "out_w": c.ow,
            "pad_y": row.padding, "pad_x": column.padding, "in_pitch": x_pitch, "out_pitch": y_pitch,
        }  # fmt: skip
        if c.opcode == Opcode.BACKWARD_DATA:
            sizes |= {
                "ic": c.q, "oc": c.c, "in_h": c.oh, "in_w": c.ow, "out_h": row.pixels, "out_w": column.pixels,
                "pad_y": row.taps - 1 - row.padding, "pad_x": column.taps - 1 - column.padding,
                "in_pitch": y_pitch, "out_pitch": x_pitch,
            }  # fmt: skip
        found[Shape(**sizes)] += 1 if place == 0 else many * more
        if place == 0 and many * more > 1:
            found[replace(Shape(**sizes), bias=0)] += many * more - 1
        common = common | {"bias": 0}
    return tuple(found.items())


def limits(shape: Shape, config: Config) -> tuple[int, ...]:
    """Sizes of the LIMITS, in elements (accumulator: words); a depthwise convolution's sums are in the pool unit."""
    pads = config.a_elements, config.b_elements, config.c_elements
    if shape.depthwise:
        return *pads, config.kept_words, config.bias_words * config.rows
    return *pads, config.acc_depth, config.bias_elements


def occupancy(shape: Shape, config: Config, n, y, i, o, swap) -> tuple:
    """Elements (accumulator: words) of each of the LIMITS that a tile of the given extents occupies."""
    if shape.parts:
        each = [occupancy(part, config, n, np.minimum(y, part.out_h), i, o, swap) for part, _ in shape.parts]
        return tuple(reduce(np.maximum, used) for used in zip(*each, strict=True))
    banks = config.banks
    tall = shape.tall(y)
    pixels = n * y * shape.out_w
    if shape.weight:
        pitch_y = align(shape.wide, shape.out_w, banks)
        pitch_n = align(tall * pitch_y, y * shape.out_w, banks)
        a_used = i * align(n * pitch_n, 1, banks)
        b_used = o * align(pixels, 1, banks)
        n_a = shape.taps * i + shape.bias
        c_used = o * (n_a if swap else align(n_a, 1, banks))
    else:
        a_used = n * tall * align(shape.wide * i, shape.s * i, banks)
        n_k = shape.taps * i
        b_used = o * (align(n_k, 1, banks) if shape.opcode == Opcode.BACKWARD_DATA else n_k)
        c_used = pixels * (align(o, 1, banks) if swap else o)
    if shape.depthwise:
        return a_used, *_depthwise(shape, config, pixels, o)
    if shape.pool:
        b_used = a_used if shape.opcode == Opcode.MAXPOOL_BACKWARD else 0
        c_used = pixels * o * (2 if shape.opcode == Opcode.MAXPOOL else 1)
        return a_used, b_used, c_used, 0, 0
    if shape.taps == 0:  # nothing to compute
        a_used = b_used = 0
    _, stream, stationary = shape.gemm(n, y, i, o, swap)
    biases = o if shape.opcode == Opcode.FORWARD and shape.bias else 0
    return a_used, b_used, c_used, stream * -(-stationary // config.cols), biases


def _depthwise(shape, config, pixels, o) -> tuple:
    """The limits beyond the A scratchpad, for tiles of ``o`` channels."""
    if shape.over_pixels:
        kept = -(-o // config.rows) * shape.elements
        return pixels * o, o * align(shape.elements, 1, config.banks), kept, 0
    residue = -1 if shape.opcode == Opcode.DEPTHWISE_BACKWARD_DATA else 1
    biases = o if shape.opcode == Opcode.DEPTHWISE and shape.bias else 0
    return shape.taps * align(o, residue, config.banks), pixels * o, 0, biases
