"""Jobs of the output-stationary array: groups of reduction elements, slices of operands, and its feeder.

The fetcher of its operands has the rules of the other array's, in :mod:`.properties_engines`, and more.
"""

from dataclasses import replace

from adagp.rtl.compute.accumulator import Accumulator
from adagp.rtl.compute.block_im2col import BlockOffsets
from adagp.rtl.compute.sum_feeder import SumFeeder
from adagp.rtl.compute.transposer import SliceLayout, Transposer
from amaranth import Cat, Mux, Signal

from .registry import CONFIG, job
from .rules import bind_streams, bind_tokens
from .rules_walks import odometer_rule

__all__ = ["SUMS", "SUMS_DEPTH"]

SUMS = replace(CONFIG, rows=3, output_stationary=True)
"""Slices of rows are shorter than those of columns, so there are only two of them."""
SUMS_DEPTH = 16
"""Words of a half of a scratchpad."""
ADDRESS_BITS = (SUMS_DEPTH * SUMS.banks - 1).bit_length()


@job("block_offsets", lambda: BlockOffsets(SUMS, ADDRESS_BITS, 1))
def _block_offsets(h):
    """A model counts the groups of each block and the blocks of each walk, and has the elements' addresses."""
    dut, walk, group = h.dut, h.dut.walk.p, h.dut.o.p
    bind_streams(h)
    most = 1 << ADDRESS_BITS
    h.assume("walk: reduces something", ~dut.walk.valid | ((walk.n_k != 0) & (walk.n_k <= most)))
    h.assume("walk: as many elements as its counts have", ~dut.walk.valid | (walk.k[-1] == walk.n_k))
    h.assume("walk: its blocks have rows and columns",
             ~(dut.walk.valid & walk.blocks) | ((walk.n_rows != 0) & (walk.n_cols != 0)))  # fmt: skip
    starts, gives = dut.walk.valid & dut.walk.ready, dut.o.valid & dut.o.ready
    of = Signal(walk.shape(), name="walk_of_model")
    working, elements, rows, cols = (Signal(shape, name=f"{name}_of_model") for name, shape in (
        ("working", 1), ("elements", range(most + 1)), ("rows", len(walk.n_rows)), ("cols", len(walk.n_cols)),
    ))  # fmt: skip
    base, jump = Signal(ADDRESS_BITS, name="base"), of.kjump[-1]
    size = Mux(of.blocks, SUMS.vector_lanes, SUMS.rows)
    last, last_rows = elements <= size, rows <= SUMS.rows
    final = ~of.blocks | (last_rows & (cols <= SUMS.cols))
    with h.m.If(gives):
        h.m.d.sync += [elements.eq(elements - size), base.eq(base + size * jump)]
        with h.m.If(last):
            h.m.d.sync += [
                elements.eq(of.n_k), base.eq(0), rows.eq(Mux(last_rows, of.n_rows, rows - SUMS.rows)),
                cols.eq(Mux(last_rows, cols - SUMS.cols, cols)), working.eq(~final),
            ]  # fmt: skip
    with h.m.If(starts):
        h.m.d.sync += [
            working.eq(1), of.eq(walk), elements.eq(walk.n_k), base.eq(0), rows.eq(walk.n_rows), cols.eq(walk.n_cols),
        ]  # fmt: skip
    h.prove("walk: taken when all groups of the one before are made", dut.walk.ready == ~working)
    h.prove("o: of a walk", ~dut.o.valid | working)
    h.prove("working: something is left", ~working | (
        (elements != 0) & (elements <= of.n_k) & (of.n_k <= most)
        & (~of.blocks | ((of.n_rows != 0) & (rows != 0) & (cols != 0)))))  # fmt: skip
    h.prove("o: as many lanes as elements are left, up to all", ~working | (group.lanes == Mux(last, elements, size)))
    h.prove("last: the block's last elements", ~working | (group.last == last))
    h.prove("advance: rows with each block, columns after all rows",
            ~working | (group.advance == (~(of.blocks & of.on_columns) | last_rows)))  # fmt: skip
    h.prove("final: the walk's last block", ~working | (group.final == final))
    lane, odometer = h.signal("lane"), h.block("odometer")
    here = [base + lane_of * jump for lane_of in range(SUMS.vector_lanes)]
    for number, address in enumerate(here):
        known = (number < lane) | (dut.o.valid & (number < group.lanes))
        h.prove(f"offset[{number}]: the element's",
                ~(working & known) | (group.offset[number] == address[:ADDRESS_BITS]))  # fmt: skip
    h.prove("odometer: begun while it works", ~working | odometer_rule(h, "odometer", h.prove, h.assume))
    left, span = ((h.signal(f"odometer.{name}0") - 1)[:ADDRESS_BITS] for name in ("left", "span"))
    h.prove("odometer: of the walk", ~working | ((span == (of.n_k - 1)[:ADDRESS_BITS]) & (
        h.signal("odometer.jumps") == jump.as_unsigned())))  # fmt: skip
    h.prove("lane: one of the group", ~working | (lane < group.lanes))
    at = [(lane != number) | (odometer.address == address[:ADDRESS_BITS]) for number, address in enumerate(here)]
    h.prove("odometer: at the lane's element",
            ~working | ((left == (elements - 1 - lane)[:ADDRESS_BITS]) & Cat(at).all()))  # fmt: skip
    kept = {"n_k": h.signals("$signal")[0], **{name: h.signal(name) for name in ("n_rows", "on_columns", "blocks")}}
    for name, signal in kept.items():
        value = (of.on_columns & of.blocks) if name == "on_columns" else of[name]
        h.prove(f"{name}: of the walk", ~working | (signal == value))
    for name, value in (("working", working), ("left", elements), ("rows", rows), ("cols", cols)):
        counts = working & of.blocks if name in ("rows", "cols") else working | (name == "working")
        h.prove(f"{name}: as in the model", ~counts | (h.signal(name) == value))
    h.cover("o: the last group of a block that isn't the walk's", gives & group.last & ~group.final & (base != 0))
    h.cover("o: the first block of the next columns", gives & group.last & last_rows & ~group.final)


def _vectors_rule(h, port, n):
    """A slice of a stream of vectors has at most ``n``; returns the place of the next one in its slice."""
    place = Signal(range(n + 1), name=f"place_{len(h.names)}")
    with h.m.If(port.valid & port.ready):
        h.m.d.sync += place.eq(Mux(port.p.end_pass, 0, place + 1))
    h.assume(f"{place.name}: a slice has at most {n} vectors", ~port.valid | port.p.end_pass | (place + 1 < n))
    return place


def _slices_rule(h, path):
    """Slices in the transposer at ``path``: how many, whether the newest is too new to be read, where the oldest is."""
    dut = h.block(path.rstrip("."))
    slices, ends = dut._slices, dut.i.valid & dut.i.ready & dut.i.p.end_pass
    level, ended = Signal(range(slices + 1), name=f"level_{len(h.names)}"), h.before(ends)
    h.m.d.sync += level.eq(level + ends - dut.done)
    h.prove(f"{path}full: slices that came and have not been read", h.signal(f"{path}full") == level)
    h.prove(f"{path}full: at most {slices}", level <= slices)
    h.prove(f"{path}complete: slices that may be read", h.signal(f"{path}complete") + ended == level)
    writing, reading = h.signals(f"{path}$signal")[0], h.signal(f"{path}reading")
    h.prove(f"{path}writing: after the slices that are there", writing == (reading + level)[: len(writing)])
    return level, ended, reading


@job("transposer_rows", lambda: Transposer(SUMS, SUMS.rows))
@job("transposer", lambda: Transposer(SUMS, SUMS.cols))
def _transposer(h):
    """One arbitrary operand is followed: it comes out with its element, at its position, whenever that is read."""
    dut, slices, lanes = h.dut, h.dut._slices, SUMS.vector_lanes
    bind_streams(h)
    place, vector = _vectors_rule(h, dut.i, dut._n), dut.i.p
    h.assume("step: while there is a slice", ~dut.step | dut.there)
    h.assume("done: with a step", ~dut.done | dut.step)
    taken = dut.i.valid & dut.i.ready
    ends, (level, ended, reading) = taken & vector.end_pass, _slices_rule(h, "")
    h.prove("i: taken while there is room for a slice", dut.i.ready == (level != slices))
    h.prove("there: a slice, a cycle after it is complete", dut.there == (level != ended))
    h.prove("place: vectors of a slice follow each other", h.signal("place") == place)

    position, lane, pick = h.constant(range(dut._n)), h.constant(range(lanes)), h.free()
    h.assume("the position is one of a slice", position < dut._n)
    known, closed, ahead = Signal(name="known"), Signal(name="closed"), Signal(range(slices + 1), name="ahead")
    value, described = Signal(SUMS.operand_width, name="value"), Signal(SliceLayout(SUMS), name="described")
    picks = taken & (place == position) & pick & ~known
    h.m.d.sync += ahead.eq(Mux(picks, level, ahead) - dut.done)
    with h.m.If(picks):
        h.m.d.sync += [known.eq(1), closed.eq(0), value.eq(vector.data[lane])]
    with h.m.If(ends & (picks | (known & ~closed))):
        h.m.d.sync += [
            closed.eq(1), described.lanes.eq(vector.lanes), described.count.eq(place + 1),
            described.end_sweep.eq(vector.end_sweep), described.end_walk.eq(vector.end_walk),
        ]  # fmt: skip
    turn = known & (ahead == 0)
    with h.m.If(dut.done & turn):
        h.m.d.sync += known.eq(0)
    h.prove("the slice is ahead of those that come later", ~known | Mux(closed, ahead < level, ahead == level))
    h.prove("its slice isn't closed: vectors after it are to come", ~known | closed | (place > position))
    slot, bank = (reading + ahead)[: len(reading)], (position + lane)[: len(lane)]
    held, kept = 0, 0
    for number in range(lanes):
        held = Mux(bank == number, h.word(f"bank{number}.memory", Cat(position[: len(lane)], slot)), held)
    for number in range(slices):
        kept = Mux(slot == number, h.signal(f"kept{number}"), kept)
    h.prove("the operand is in memory", ~known | h.before(picks) | (held == value))
    h.prove("kept: what is known of the slice", ~(known & closed) | (kept == described.as_value()))
    h.prove("slice: what came with its last vector", ~(turn & dut.there) | (dut.slice == described))
    read = h.before(dut.step & turn & (dut.k == lane))
    comes, expected = h.before(read), h.before(h.before(value))
    h.prove("o: the operand", ~comes | (dut.o[position].as_unsigned() == expected))
    h.cover("i: waits for room", dut.i.valid & ~dut.i.ready)
    h.cover("o: the operand, of a slice after others, as another vector comes",
            comes & taken & h.before(h.before(reading)).all())  # fmt: skip
    h.cover("a slice is read right after another", h.before(dut.done) & dut.step)


def _operand_of_sums(h, port, path, n):
    """Assume a feeder's operand to be vectors in slices; prove what follows for the slices in its transposer."""
    place, vector, lanes = _vectors_rule(h, port, n), port.p, SUMS.vector_lanes
    some = (vector.lanes != 0) & (vector.lanes <= lanes)
    h.assume(f"{path}i: a vector has elements", ~port.valid | some)
    nested = (~vector.end_walk | vector.end_sweep) & (~vector.end_sweep | vector.end_pass)
    h.assume(f"{path}i: a walk ends with a sweep, that with a pass", ~port.valid | nested)
    level, _, reading = _slices_rule(h, path)
    h.prove(f"{path}place: vectors of a slice follow each other", h.signal(f"{path}place") == place)
    h.prove(f"{path}place: one of a slice", place < n)
    for number in range(h.block(path[:-1])._slices):
        kept = SliceLayout(SUMS)(h.signal(f"{path}kept{number}"))
        sound = (kept.lanes != 0) & (kept.lanes <= lanes) & (kept.count != 0) & (kept.count <= n)
        there = (number - reading)[: len(reading)] < level
        h.prove(f"{path}kept{number}: of vectors that came", ~there | (sound & (~kept.end_walk | kept.end_sweep)))


@job("sum_feeder", lambda: SumFeeder(SUMS), cut=("t:$mem_v2",))
def _sum_feeder(h):
    """Elements of slices in their order, one by one; a block's rows after its last; halves of the accumulator."""
    dut, rows, cols = h.dut, h.block("rows"), h.block("cols")
    bind_streams(h)
    bind_tokens(h)
    _operand_of_sums(h, dut.stream, "rows.", SUMS.rows)
    _operand_of_sums(h, dut.stationary, "cols.", SUMS.cols)
    there, active, block = rows.there & cols.there, dut.active, rows.slice
    alike = Cat(getattr(block, n) == getattr(cols.slice, n) for n in ("lanes", "end_sweep", "end_walk")).all()
    h.assume("stream, stationary: slices that meet are alike", ~there | alike)
    element = Signal(range(SUMS.vector_lanes), name="element")
    ends = active & (element + 1 == block.lanes)
    with h.m.If(active):
        h.m.d.sync += element.eq(Mux(ends, 0, element + 1))
    h.prove("active: both operands have a slice", ~active | (dut.busy & there))
    h.prove("k: elements of the slice that were taken", h.signals("k")[-1] == element)  # ports are made before
    h.prove("k: an element that the slice has", Mux(there, element < block.lanes, element == 0))
    for name, side in (("rows", rows), ("cols", cols)):
        h.prove(f"{name}: each element once, in their order", (side.step == active) & (~active | (side.k == element)))
        h.prove(f"{name}: a slice is done with its last element", side.done == ends)
    leaves = ends & block.end_sweep
    _blocks_rule(h, (element + 1 == block.lanes) & block.end_sweep, leaves, block)
    inside = Signal(name="inside")  # a block
    with h.m.If(active):
        h.m.d.sync += inside.eq(~leaves)
    h.prove("fresh: outside of blocks", h.signal("fresh") == ~inside)
    adds, first = h.before(h.before(active)), h.before(h.before(~inside))
    h.prove("add: an element, as it comes to the array", dut.add == adds)
    h.prove("first: a block's first element", ~adds | (dut.first == first))
    products = h.before(Mux(active, block.count * cols.slice.count, 0))
    h.prove("macs: pairs of positions", dut.macs == h.before(products))
    h.cover("active: from slice to slice without a pause", active & h.before(ends & ~leaves))
    h.cover("macs: all PEs", dut.macs == SUMS.n_pes)


def _blocks_rule(h, last, leaves, block):
    """Blocks that leave the array with their last element: when they may, their rows, halves and flags."""
    dut, tag, gap = h.dut, h.dut.tag, Accumulator.latency
    gemm, busy, opened, half = (Signal(shape, name=f"{name}_of_model") for name, shape in (
        ("gemm", dut.gemm.p.shape()), ("busy", 1), ("opened", 1), ("half", 1)))  # fmt: skip
    end_walk, count = block.end_walk, block.count
    ends, begins = leaves & end_walk, dut.gemm.valid & dut.gemm.ready
    since = Signal(range(gap + 2), init=gap + 1)  # cycles from the last block on
    size, use = Signal.like(count), Signal(tag.shape(), name="use_of_model")
    with h.m.If(since <= gap):
        h.m.d.sync += since.eq(since + 1)
    with h.m.If(leaves):
        h.m.d.sync += [
            opened.eq(1), since.eq(1), size.eq(count), use.half.eq(half), use.overwrite.eq(gemm.first),
            use.end_sweep.eq(end_walk), use.full.eq(end_walk & gemm.last), half.eq(half ^ (end_walk & gemm.last)),
        ]  # fmt: skip
    with h.m.If(ends):
        h.m.d.sync += busy.eq(0)
    with h.m.If(begins):
        h.m.d.sync += [busy.eq(1), opened.eq(0), gemm.eq(dut.gemm.p)]
    apart = since >= gap
    h.prove("busy: from a GEMM's begin to its last block", dut.busy == busy)
    h.prove("gemm: taken when the one before has ended", dut.gemm.ready == (~busy | ends))
    h.prove("gemm, opened, half: of the GEMM", (h.signal("gemm") == gemm.as_value()) & (h.signal("opened") == opened)
            & (h.signal("half") == half))  # fmt: skip
    h.prove(f"a block leaves {gap} cycles after another, and after its rows", ~leaves | (apart & (since >= size)))
    h.prove("pause: cycles until one may leave", h.signal("pause") == Mux(apart, 0, gap - since))
    h.prove("size: no more rows than there are", (size <= SUMS.rows) & ((size != 0) | (since > gap)) & (since != 0))
    wants, avail = gemm.first & ~opened, dut.acc_free.avail
    h.prove("acc_free: a half for a GEMM that opens one, with its first block", dut.acc_free.take == (leaves & wants))
    there = busy & h.block("rows").there & h.block("cols").there
    h.prove("active: but for what a block's last element waits for",
            dut.active == (there & (~last | (apart & (~wants | avail)))))  # fmt: skip
    h.prove("undrained: for a half only", dut.undrained == (there & last & apart & wants & ~avail))
    row = since - 1
    h.prove("left: rows that have yet to leave", h.signal("left") == Mux(since <= size, size - row, 0))
    h.prove("tag: each row of a block, from the cycle after it on", tag.valid == (since <= size))
    h.prove("use: of the block", h.signal("use") == use.as_value())
    h.prove("tag: half and kind of the GEMM",
            ~tag.valid | ((tag.half == use.half) & (tag.overwrite == use.overwrite)))  # fmt: skip
    h.prove("tag: flags of the end with the last row",
            Cat(tag.end_sweep, tag.full) == Mux(since == size, Cat(use.end_sweep, use.full), 0))  # fmt: skip
    h.prove("row: counted, a cycle later", ~h.before(tag.valid) | (dut.row == h.before(row)))
    h.cover(f"a block of {SUMS.rows} rows leaves as soon as it may", leaves & (since == gap) & (count == SUMS.rows))
    h.cover("undrained", dut.undrained)
    h.cover("gemm: taken as another one ends, which goes on in the same half", begins & ends & ~gemm.last)
    h.cover("tag: the second half is full", tag.full & tag.half)
