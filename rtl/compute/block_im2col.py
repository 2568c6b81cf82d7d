"""Operand fetch for the output-stationary array: walks a tile block by block of outer positions."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.odometer import COUNT_BITS, Odometer
from .im2col import Im2col
from .lane_offsets import N_REDUCTION, WalkLayout, innermost, most_bits

__all__ = ["BlockIm2col", "BlockWalkLayout"]

BlockWalkLayout = data.StructLayout({
    **WalkLayout.members,
    "blocks": 1, "on_columns": 1, "n_rows": COUNT_BITS, "n_cols": COUNT_BITS,
})  # fmt: skip
"""A :data:`.lane_offsets.WalkLayout` for either array. With ``blocks`` it is of a GEMM of ``n_rows`` by ``n_cols``
outer positions, whose operand is that of the columns with ``on_columns``; ``repeat`` doesn't matter. Without, the walk
is one for vectors, as :class:`.im2col.Im2col` has it, once for each group.
"""


class BlockOffsets(wiring.Component):
    """Makes addresses of each group of reduction elements, relative to an outer position, for each block of sums.

    A group is made while the one before is in use. The next walk is taken as soon as all groups of the present one are
    made.

    Parameters
    ----------
    address_bits
        width of an address
    levels
        levels of the reduction, the innermost ones

    Members
    -------
    walk : In(stream.Signature(BlockWalkLayout))
        the walks; each has stood for a cycle before it is offered
    busy : Out(1)
        low only while the block waits for another block
    o : Out
        the groups. ``last``: it is the block's last; ``advance``: after that come the operand's next outer positions;
        ``final``: the block is the walk's last

    Timing
    ------
    A lane a cycle.
    """

    def __init__(self, config: Config, address_bits: int, levels: int = N_REDUCTION):
        lanes = config.vector_lanes
        super().__init__({
            "walk": In(stream.Signature(BlockWalkLayout)), "busy": Out(1),
            "o": Out(stream.Signature(data.StructLayout({
                "offset": data.ArrayLayout(address_bits, lanes), "lanes": range(lanes + 1),
                "last": 1, "advance": 1, "final": 1,
            }))),
        })  # fmt: skip
        self.config = config
        self.address_bits = address_bits
        self.levels = levels

    def elaborate(self, platform):
        m = Module()
        walk, group = self.walk.payload, self.o.payload
        bits = self.address_bits
        m.submodules.odometer = odometer = Odometer(self.levels, bits, most_bits=most_bits(self.config, bits))
        working, blocks, last = (Signal(name=name) for name in ("working", "blocks", "last"))
        n_k, left = Signal(COUNT_BITS), Signal(COUNT_BITS)
        lane = Signal(range(self.config.vector_lanes))
        size = Mux(blocks, self.config.vector_lanes, self.config.rows)
        gives, steps = Signal(), Signal()
        m.d.comb += [
            odometer.n.eq(innermost(walk.k, self.levels)), odometer.jump.eq(innermost(walk.kjump, self.levels)),
            odometer.start.eq(self.walk.valid & self.walk.ready),
            self.walk.ready.eq(~working), group.last.eq(last), group.lanes.eq(Mux(last, left, size)),
            self.o.valid.eq(working & (lane + 1 == group.lanes)), gives.eq(self.o.valid & self.o.ready),
            steps.eq(working & (~self.o.valid | self.o.ready)), odometer.step.eq(steps), self.busy.eq(steps),
        ]  # fmt: skip
        for place, offset in enumerate(group.offset):
            made = Signal.like(offset, name=f"offset{place}", reset_less=True)
            m.d.comb += offset.eq(made)
            with m.If(lane == place):  # the last lane comes straight from the odometer
                m.d.comb += offset.eq(odometer.address)
                m.d.sync += made.eq(odometer.address)
        with m.If(steps):
            m.d.sync += lane.eq(lane + 1)
        with m.If(gives):
            m.d.sync += [lane.eq(0), left.eq(left - size), last.eq(left - size <= size)]
            with m.If(last):
                m.d.sync += [left.eq(n_k), last.eq(n_k <= size), working.eq(~group.final)]
        with m.If(odometer.start):
            first_size = Mux(walk.blocks, self.config.vector_lanes, self.config.rows)
            m.d.sync += [
                working.eq(1), lane.eq(0), n_k.eq(walk.n_k), left.eq(walk.n_k), blocks.eq(walk.blocks),
                last.eq(walk.n_k <= first_size),
            ]  # fmt: skip
        self._count_blocks(m, odometer.start, gives & last, blocks)
        return m

    def _count_blocks(self, m, start, ends, blocks):
        """Count blocks of sums: for each ``cols`` of the columns' positions, all of the rows'."""
        walk, group = self.walk.payload, self.o.payload
        n_rows, rows, cols = (Signal(COUNT_BITS, name=name) for name in ("n_rows", "rows", "cols"))
        on_columns, last_rows, last_cols = (Signal(name=name) for name in ("on_columns", "last_rows", "last_cols"))
        m.d.comb += [
            last_rows.eq(rows <= self.config.rows), last_cols.eq(cols <= self.config.cols),
            group.advance.eq(~on_columns | last_rows), group.final.eq(~blocks | (last_rows & last_cols)),
        ]  # fmt: skip
        with m.If(ends):
            m.d.sync += rows.eq(rows - self.config.rows)
            with m.If(last_rows):
                m.d.sync += [rows.eq(n_rows), cols.eq(cols - self.config.cols)]
        with m.If(start):
            m.d.sync += [
                n_rows.eq(walk.n_rows), rows.eq(walk.n_rows), cols.eq(walk.n_cols),
                on_columns.eq(walk.on_columns & walk.blocks),
            ]  # fmt: skip


class BlockIm2col(Im2col):
    """Fetches the vectors of one operand, as :class:`.im2col.Im2col` does, in the order of blocks of sums.

    For each block it gives, for each group of ``vector_lanes`` reduction elements, a vector for each of the operand's
    outer positions in the block: ``end_pass`` with the last of these, ``end_sweep`` with the last group. The operand of
    the rows has its next outer positions in the next block, that of the columns has them after all of the rows'. Walks
    without ``blocks`` are the same as there.

    Parameters
    ----------
    depth
        words of a half of the scratchpad
    levels
        levels of outer positions and of the reduction, the innermost ones; others have one turn in all walks
    """

    walk_layout = BlockWalkLayout

    def _walk(self, m, position, room):
        config, walk = self.config, self.walk.payload
        address_bits = (self.depth * config.banks - 1).bit_length()
        levels, reduction = self.levels
        m.submodules.odometer = odometer = Odometer(levels, address_bits, True, most_bits(config, address_bits))
        m.submodules.offsets = offsets = BlockOffsets(config, address_bits, reduction)
        ones, extra, kept_extra, blocks, on_columns, begins, again = (
            Signal(name=name) for name in (
                "ones", "extra", "kept_extra", "blocks", "on_columns", "begins", "again",
            )
        )  # fmt: skip
        place = Signal(range(max(config.rows, config.cols)))
        start, group, group_offsets, walking = self._take(m, position, room, odometer, offsets, position.end_pass)
        taken = position.valid
        last_extra = self._count_ones(m, walk, start, taken, extra)
        size = Mux(on_columns, config.cols, config.rows)
        final = Mux(extra, last_extra | blocks, odometer.last & ~ones)  # the last outer position
        m.d.comb += [
            position.ones.eq(extra), position.end_pass.eq(final | (blocks & (place + 1 == size))),
            position.end_sweep.eq(position.end_pass & (group.last | ~blocks)),
            position.end_walk.eq(position.end_pass & group.last & group.final), begins.eq(place == 0),
            again.eq(blocks & position.end_pass & ~(group.last & group.advance)),
            odometer.save.eq(taken & begins), odometer.restore.eq(taken & again),
            odometer.step.eq(taken & ~extra & ~again),
        ]  # fmt: skip
        with m.If(start):
            m.d.sync += [ones.eq(walk.ones), place.eq(0), blocks.eq(walk.blocks), on_columns.eq(walk.on_columns)]
        with m.If(taken):
            m.d.sync += [
                extra.eq(Mux(extra, ~final, ones & odometer.last)),
                place.eq(Mux(blocks & ~position.end_pass, place + 1, 0)),
            ]
            with m.If(begins):
                m.d.sync += kept_extra.eq(extra)
            with m.If(again):
                m.d.sync += extra.eq(Mux(begins, extra, kept_extra))
        return odometer.address, group_offsets, walking
