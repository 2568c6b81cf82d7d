"""Cost model by which mappings are chosen: cycles of a command from each engine's work, as if they overlap fully."""

from functools import wraps
from typing import Any

import numpy as np

from ...spec.commands import CMode, Opcode
from ...spec.config import Config
from ...spec.dropout import BLOCK
from .array_passes import block_cycles, shortest_pass
from .occupancy import Extent, Shape, occupancy

__all__ = [
    "CLASS_CYCLES",
    "EXPOSED",
    "GAP_CYCLES",
    "RUN_CYCLES",
    "SETUP_CYCLES",
    "TILE_CYCLES",
    "Tiling",
]

SETUP_CYCLES = 800
"""Sequencer: from a command to its first descriptor."""
TILE_CYCLES = 400
"""Sequencer: the descriptors of one tile."""
CLASS_CYCLES = 450
"""Sequencer: setup of one residue class."""
GAP_CYCLES = 24
"""Array: pause between two tiles."""
RUN_CYCLES = 2
"""Store: pause between two runs."""
DRAW_CYCLES = 9
"""Pool unit: the draw of a block of a pixel's channels."""
EXPOSED = 0.01
"""Share of the other engines' work that is expected not to overlap with the slowest one's."""


def _of_parts(method):
    """``method``, which for a command that runs by residue classes is the sum over them."""

    @wraps(method)
    def summed(self, *given):
        if not self.parts:
            return method(self, *given)
        each = [(getattr(part, method.__name__)(*given), times) for part, times in self.parts]
        if isinstance(each[0][0], tuple):
            return tuple(sum(found[place] * times for found, times in each) for place in range(len(each[0][0])))
        return sum(found * times for found, times in each)

    return summed


class Tiling:
    """A command cut into tiles, and the work this makes for each engine.

    ``n``, ``y``, ``i``, ``o`` are the tiles' images, rows, channels read and channels written: integers,
    or numpy arrays for many tilings at once. Methods called ``..._traffic`` return an array of two rows: cycles of the
    memory port, and cycles of the DRAM.
    """

    def __init__(self, shape: Shape, config: Config, n, y, i, o, swap: int = 0, out_outer: int = 0):
        self.shape, self.config, self.swap, self.out_outer = shape, config, swap, out_outer
        self.extents = (n, y, i, o)
        self.images, self.lines = Extent(shape.n, n), Extent(shape.out_h, y)
        self.inner, self.outer = Extent(shape.ic, i), Extent(shape.oc, o)
        self.parts = [(type(self)(part, config, n, y, i, o, swap, out_outer), times) for part, times in shape.parts]
        self.results: Any
        self.tiles: Any
        if self.parts:
            self.results = sum(part.results * times for part, times in self.parts)
            self.tiles = sum(part.tiles * times for part, times in self.parts)
            return
        self.spots = self.images.count * self.lines.count
        if shape.pool:
            self.tiles = self.spots * self.inner.count
            self.results = self.inner.count if shape.over_pixels else self.tiles
        else:
            self.results = self.outer.count * (self.inner.count if shape.weight else self.spots)
            self.tiles = self.results * (self.spots if shape.weight else self.inner.count) * (shape.taps > 0)

    def cycles(self):
        """Expected cycles: those of the slowest engine, and of the first fill and the last drain and store.

        Nothing overlaps with the latter, and little between residue classes, whose slowest engines differ.
        """
        fill = self.fill_traffic()[0] + self.clear_cycles()
        (stored, _), runs = self.result_traffic()
        ends = fill / self.tiles + (self.drain_cycles() + stored + RUN_CYCLES * runs) / self.results
        setup = SETUP_CYCLES + CLASS_CYCLES * bool(self.parts)
        return setup + self._steady_cycles() + ends

    def beats(self):
        """Expected beats of the memory port, read and written."""
        return self.fill_traffic()[0] + self.result_traffic()[0][0]

    @_of_parts
    def _steady_cycles(self):
        """Cycles while all engines have work: array or pool unit, drain, fill, store, DRAM and sequencer.

        The users of the C scratchpad count as one if they take turns at it.
        """
        array = self.array_cycles(shortest_pass(self.config)) + GAP_CYCLES * self.tiles
        drain = self.drain_cycles()
        (stored, store_dram), runs = self.result_traffic()
        fill, fill_dram = self.fill_traffic()
        fill = fill + self.clear_cycles()
        sequenced = TILE_CYCLES * np.maximum(self.tiles, self.results) + CLASS_CYCLES * self.shape.strided
        together = np.broadcast_arrays(
            array, drain, fill, stored + RUN_CYCLES * runs, fill_dram + store_dram, sequenced
        )
        slowest = np.max(together, axis=0)
        exposed = EXPOSED * (np.sum(together, axis=0) - slowest)
        if self.shape.c_mode:  # a half of C is filled after the tile's other operands, then drained to and stored from
            slowest = np.maximum(slowest, (fill + drain + stored) / 2)
        return slowest + exposed

    @_of_parts
    def array_cycles(self, shortest: int = 0):
        """Cycles in which the array (or pool unit) takes a vector, when no pass is shorter than ``shortest``."""
        shape = self.shape
        if shape.depthwise and shape.shares_columns(self.config):
            return self._column_cycles()
        if shape.depthwise and shape.over_pixels:
            return self._vectors() * shape.reduction
        if shape.pool:
            drawn = self.inner.total(lambda i: -(-i // BLOCK)) * DRAW_CYCLES if shape.drops else 0
            return np.maximum(self._vectors() * shape.taps, shape.n * shape.out_h * shape.out_w * drawn)
        if self.config.output_stationary:
            cols, rows = self.config.cols, self.config.rows
            return self._reduced(lambda n_k: block_cycles(self.config, n_k, shortest)) * self._results_by(
                0, lambda held: -(-held // cols), lambda streamed: -(-streamed // rows)
            )
        return self._reduced(self._row_groups) * self._results_by(shortest)

    def _reduced(self, function):
        """Sum of ``function(length of the reduction)`` over the tiles along the reduction."""
        shape = self.shape
        if shape.weight:
            return self._over_spots(lambda n, y: function(n * y * shape.out_w))
        return self.inner.total(lambda i: function(shape.taps * i))

    def _column_cycles(self):
        """Cycles of a depthwise convolution whose windows share columns: those of its vectors, and a tile's others.

        Those load a group's kernel or, of sums over pixels, give all of a kernel's row but the last.
        """
        shape = self.shape
        columns = shape.n * shape.out_h * shape.wide
        if shape.over_pixels:
            cycles = (shape.r + shape.bias) * columns + shape.r * (shape.s - 1) * self.spots
        else:
            cycles = shape.r * columns + shape.taps * self.spots
        return cycles * self.inner.total(self._row_groups)

    @_of_parts
    def drain_cycles(self):
        """Cycles of the drain engine: one for each group of lanes of a vector of results."""
        if self.shape.pool:
            return self._vectors(lambda extent: self._folds(extent, self.config.rows))
        return self._results_by(0, lambda extent: self._folds(extent, self.config.cols))

    def _vectors(self, by=None):
        """Vectors of the pool unit."""
        shape = self.shape
        vectors = shape.elements if shape.over_pixels else shape.n * shape.out_h * shape.out_w
        return vectors * self.inner.total(by or self._row_groups)

    def _folds(self, extent, lanes):
        """Cycles of the epilogue for ``extent`` results in vectors of ``lanes``."""
        return extent // lanes * self.config.folds(lanes) + self.config.folds(extent % lanes)

    def _results_by(self, shortest, by=None, of_streamed=None):
        """Psum vectors of the whole command, when no tile streams less than ``shortest``; or what ``by`` counts."""
        held, streamed = (self._a_side, self.outer.total) if self.swap else (self.outer.total, self._a_side)
        counted = of_streamed or (lambda e: np.maximum(e, shortest))
        return held(by or (lambda e: -(-e // self.config.cols))) * streamed(counted)

    def _a_side(self, function):
        """Sum of ``function(operand A's outer positions)`` over the tiles along A's outer dimensions."""
        shape = self.shape
        if shape.weight:
            full = (self.inner.count - 1) * function(shape.taps * self.inner.tile)
            return full + function(shape.taps * self.inner.last + shape.bias)
        return self._over_spots(lambda n, y: function(n * y * shape.out_w))

    def _over_spots(self, function):
        return self.images.total(lambda n: self.lines.total(lambda y: function(n, y)))

    def _row_groups(self, extent):
        return -(-extent // self.config.rows)

    def _run(self, elements, granule=1):
        """Traffic of one run of contiguous elements: the average over runs that start at multiples of ``granule``.

        A filter's run may start at any element, because its row has an odd number of them.
        """
        n_bytes, step = (np.atleast_1d(x) * self.config.operand_bytes for x in (elements, granule))
        part = self.config.dram

        def pieces(size):
            return (n_bytes + size - np.gcd(step, size)) / size

        rate = part.burst_bytes * self.config.clock_hz / part.bandwidth_bytes
        return np.stack([pieces(self.config.beat_bytes), pieces(part.burst_bytes) * rate])

    def _pieces(self, channels):
        """Traffic of a pixel's ``channels``, a run for each tile."""
        return channels.total(lambda extent: self._run(extent, np.gcd(self._pitch(channels), channels.tile)))

    def _pitch(self, channels):
        """Elements from a pixel with these channels to the next one."""
        return (self.shape.in_pitch if channels is self.inner else self.shape.out_pitch) or channels.size

    @_of_parts
    def clear_cycles(self):
        """Cycles, about, in which tiles that will hold padding or dilation are cleared."""
        shape = self.shape
        used_a, *_ = occupancy(shape, self.config, *self.extents, self.swap)
        times_a = 1 if shape.pool else self._refills()[0]
        total = used_a * self.spots * self.inner.count * times_a * shape.clears
        if shape.opcode == Opcode.MAXPOOL_BACKWARD:
            total = 2 * total
        return total // self.config.banks

    @_of_parts
    def fill_traffic(self):
        """Traffic of operands A, B, bias and C."""
        shape = self.shape
        heights, which = np.unique(self.lines.tile, return_inverse=True)
        lines = shape.n * np.array([shape.rows_read(y) for y in heights.tolist()])[which]
        apart = shape.weight or shape.dilate > 1 or shape.in_pitch
        whole = (self.inner.count == 1) & (not apart)
        pieces = shape.columns * self._pieces(self.inner)
        total = lines * np.where(whole, self._run(shape.columns * shape.ic, shape.in_w * shape.ic), pieces)
        if shape.opcode == Opcode.MAXPOOL_BACKWARD:
            total = 2 * total
        elif shape.depthwise:
            total = total + self._fill_filters()
        elif not shape.pool:
            times_a, times_b = self._refills()
            total = (total * times_a + self._fill_b() * times_b) * (shape.taps > 0)
        if shape.opcode in (Opcode.FORWARD, Opcode.DEPTHWISE) and shape.bias:
            total = total + shape.oc * self.spots * self._run(1)
        results = 2 if shape.opcode == Opcode.MAXPOOL else 1  # of which C is like one
        added = {CMode.NONE: 0, CMode.ADD_MASK: 2}.get(CMode(shape.c_mode), 1)  # operands shaped like the result
        return total + added * self.result_traffic()[0] / results

    def _fill_b(self):
        """Traffic of operand B, read once."""
        shape = self.shape
        if shape.weight:
            return shape.n * shape.out_h * shape.out_w * self._pieces(self.outer)
        if shape.opcode == Opcode.BACKWARD_DATA:
            return shape.ic * shape.taps * self.outer.total(self._run)
        rows = self._run(shape.taps * self.inner.tile)
        return shape.oc * np.where(self.inner.count == 1, rows, shape.taps * self.inner.total(self._run))

    def _fill_filters(self):
        """Traffic of a depthwise convolution's filters, or of dY in its weight gradient."""
        shape = self.shape
        if not shape.over_pixels:
            again = (self.inner.count > 1) & (not self.out_outer)  # then no tile finds its filters there
            return shape.oc * self._run(shape.taps) * np.where(again, self.spots, 1)
        lines = shape.n * shape.out_h
        whole = (self.inner.count == 1) & (not shape.out_pitch)
        apart = lines * shape.out_w * self._pieces(self.outer)
        return np.where(whole, lines * self._run(shape.out_w * shape.oc), apart)

    def _refills(self):
        """The times that all of A and all of B are read; a tile stays only while consecutive tiles share it."""
        own, reduced = (self.inner.count, self.spots) if self.shape.weight else (self.spots, self.inner.count)
        keeps_a = (reduced == 1) & ((own == 1) | (not self.out_outer))
        keeps_b = (reduced == 1) & ((self.outer.count == 1) | bool(self.out_outer))
        return np.where(keeps_a, 1, self.outer.count), np.where(keeps_b, 1, own)

    @_of_parts
    def result_traffic(self):
        """Traffic of the result, written once, and the number of its runs."""
        shape, single = self.shape, np.ones_like(self.outer.tile)
        if shape.depthwise and shape.over_pixels:
            return shape.oc * self._run(shape.elements) * single, shape.oc * single
        if shape.weight:
            joined = (self.inner.count == 1) & (not shape.strided)
            whole, whole_runs = shape.oc * self._run(shape.taps * shape.ic + shape.bias), shape.oc
            pieces = shape.oc * (shape.taps * self.inner.total(self._run) + shape.bias * self._run(1))
            piece_runs = shape.oc * (shape.taps * self.inner.count + shape.bias)
        else:
            pixels = shape.n * shape.out_h * shape.out_w
            channels = self.inner if shape.pool else self.outer
            packed = not self.swap or shape.oc % self.config.banks == 1  # the C scratchpad has no gaps
            joined = (channels.count == 1) & packed & (not shape.out_pitch) & (not shape.strided)
            whole = shape.n * self.lines.total(lambda y: self._run(y * shape.out_w * shape.oc, shape.out_w * shape.oc))
            whole_runs = shape.n * self.lines.count
            pieces, piece_runs = pixels * self._pieces(channels), pixels * channels.count
        times = 2 if shape.opcode == Opcode.MAXPOOL else 1
        traffic = np.where(joined, whole, pieces)
        return times * traffic, times * np.where(joined, whole_runs * single, piece_runs)
