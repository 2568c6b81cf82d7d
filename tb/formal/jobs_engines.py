"""Jobs: operand fetch, feeder, pool, compute, drain, update."""

from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from adagp.rtl import chunks, update_read, update_write
from adagp.rtl.chunks import Chunks
from adagp.rtl.compute import Compute
from adagp.rtl.drain import Drain
from adagp.rtl.drain_walk import DrainWalk
from adagp.rtl.feeder import Feeder
from adagp.rtl.gearbox import Pack, Unpack
from adagp.rtl.im2col import LaneOffsets, Operand
from adagp.rtl.odometer import Odometer
from adagp.rtl.pool import Pool
from adagp.rtl.top import HALVES
from adagp.rtl.update import Update
from adagp.rtl.update_read import SLOTS, UpdateReader, array_bytes
from adagp.rtl.update_write import UpdateWriter, written_arrays
from amaranth import Cat, Mux, Signal

from .jobs_memory import request_rule
from .registry import CONFIG, job
from .rules import bind_streams, bind_tokens, counter_rule

__all__ = []

GAP = 4
"""As the machine's feeder has it, or so: any gap must do."""
ADDRESS_BITS = (CONFIG.a_depth * CONFIG.banks - 1).bit_length()
GROUP_BITS = 16
FEW_WEIGHTS = 8
"""In a chunk, where its size is of no interest: its arrays fill more than a beat each."""
MOMENTUM_BEATS = FEW_WEIGHTS * array_bytes(CONFIG)["v"] // CONFIG.beat_bytes
DATA = ("t:$mul",)
"""What is cut in blocks whose rules don't depend on results."""


@job("odometer", lambda: Odometer(3, 12))
def _odometer(h):
    for level in range(3):
        left, span = h.signal(f"left{level}"), h.signal(f"span{level}")
        h.prove(f"left{level}: at most what it starts with", left <= span)
        h.cover(f"left{level}: falls to 0", (h.before(left) == 1) & (left == 0))


@job("lane_offsets", lambda: LaneOffsets(CONFIG, ADDRESS_BITS))
def _lane_offsets(h):
    bind_streams(h)
    h.prove(f"lane: at most {CONFIG.rows}", h.signal("lane") <= CONFIG.rows)
    taken = h.dut.walk.valid & h.dut.walk.ready
    h.assume("walk: reduces something", ~taken | (h.dut.walk.p.n_k != 0))
    h.prove("o: a group has lanes", ~h.dut.o.valid | (h.dut.o.p.lanes != 0))
    h.prove("left: there is an element for each group", ~h.dut.o.valid | (h.signal("left") != 0))


@job("operand", lambda: Operand(CONFIG, CONFIG.a_depth), depth=50)
def _operand(h):
    bind_streams(h)
    bind_tokens(h)
    data = h.dut.pad.data.as_value()
    h.assume("pad: data stands while the port is off", ~h.before(~h.dut.pad.en) | (h.before(data) == data))
    taken = h.dut.full.take & h.dut.full.avail
    held = Signal(range(4))
    h.m.d.sync += held.eq(held + taken - h.dut.free)
    h.assume("full: the ring has no more tokens than halves", ~h.dut.full.avail | (held < HALVES))
    h.prove(f"free: no more halves than were taken, {HALVES} at most", held <= HALVES)
    h.prove("free: the half in use isn't given back", ~h.dut.free | (held == HALVES))
    h.cover("free", h.dut.free)


@job("feeder", lambda: Feeder(CONFIG, GAP), cut=DATA)
def _feeder(h):
    bind_streams(h)
    bind_tokens(h)
    h.prove(f"travelling: at most {GAP - 1}", h.signal("travelling") < GAP)
    h.cover("travelling: arrives", (h.before(h.signal("travelling")) == 1) & (h.signal("travelling") == 0))
    h.prove(f"columns: at most {CONFIG.cols}", h.signal("columns") <= CONFIG.cols)
    h.cover(f"columns: {CONFIG.cols}", h.signal("columns") == CONFIG.cols)
    column = h.signal("column")
    h.prove("column: one of them", (column != 0) & ((column & (column - 1)) == 0))
    h.prove("load: into one column", ~h.dut.load.any() | (h.dut.load == column))


@job("pool", lambda: Pool(CONFIG), cut=DATA)
def _pool(h):
    bind_streams(h)
    h.assume("job: has taps", ~h.dut.job.valid | (h.dut.job.p.n_taps != 0))
    h.prove("busy while a result waits", ~h.dut.o.valid | h.dut.busy)


@job("compute", lambda: Compute(CONFIG), cut=("t:$mul", "t:$mem_v2"))
def _compute(h):
    bind_streams(h)
    bind_tokens(h)
    for name, pad in (("a", h.dut.a), ("b", h.dut.b)):
        data = pad.data.as_value()
        h.assume(f"{name}: data stands while the port is off", ~h.before(~pad.en) | (h.before(data) == data))
        full = getattr(h.dut, f"{name}_full")
        held = Signal(range(4), name=f"held_{name}")
        h.m.d.sync += held.eq(held + (full.take & full.avail) - getattr(h.dut, f"{name}_free"))
        h.assume(f"{name}_full: the ring has no more tokens than halves", ~full.avail | (held < HALVES))
        h.prove(f"{name}_free: no more halves than were taken", held <= HALVES)
    stalls = [h.dut.stall_idle, h.dut.stall_a, h.dut.stall_b, h.dut.stall_drain, h.dut.stall_load, h.dut.active]
    h.prove("each cycle counts once", sum(stalls) == 1)


@job("drain_walk", lambda: DrainWalk(CONFIG))
def _drain_walk(h):
    d, step = h.dut.d, h.dut.step
    h.assume("d: something to drain", (d.n_out != 0) & (d.n_in != 0))
    running = h.before(step.valid & ~(step.last & h.dut.en) | h.dut.start)
    h.assume("d: stands until the last step", ~running | (h.before(d.as_value()) == d.as_value()))
    h.assume("start: only while nothing is under way", ~h.dut.start | ~step.valid)
    for level in ("n_out", "n_in"):
        left = h.signal(f"{level}_left")
        h.prove(f"{level}: never more left than there are", ~step.valid | ((left != 0) & (left <= d[level])))
    h.cover("last of several steps", step.valid & step.last & (h.signal("n_in_left") != d.n_in))


@job("drain", lambda: Drain(CONFIG), depth=50, cut=("t:$mul", "t:$mem_v2"))
def _drain(h):
    dut = h.dut
    bind_streams(h)
    bind_tokens(h)
    something = (dut.i.p.n_out != 0) & (dut.i.p.n_in != 0)
    h.assume("i: something to drain", ~dut.i.valid | something)
    # Where a descriptor's last vector is: still in the walk, on its way to the epilogue, or behind its entrance.
    walk, stages = h.block("walk"), h.signals("stage")
    step = walk.step
    entering = [step.shape()(s) for s in stages if len(s) == step.shape().size][-Drain.READ_STAGES :]
    ahead = Cat(step.valid, (stage.valid & stage.last for stage in entering))
    behind = Cat(s for s in stages if len(s) == 1)
    runs = h.state("", "RUN")
    h.prove("a descriptor has one end", sum([*ahead, *behind]) == runs)
    credits = {"acc_free": dut.acc_full.take, "drained": dut.c_ready.take}
    for name, taken in credits.items():
        held = Signal(range(4), name=f"held_{name}")
        h.m.d.sync += held.eq(held + taken - getattr(dut, name))
        h.prove(f"{name}: given once for each token taken", held <= 1)
        h.cover(f"{name}: given", getattr(dut, name))
        now = runs if name == "drained" else ahead.any() & ~walk.d.vector
        h.prove(f"{name}: one is held until the end", held == now)
    h.prove("result_valid comes with drained", ~dut.result_valid | dut.drained)


@job("unpack", lambda: Unpack(CONFIG.port_width, GROUP_BITS))
def _unpack(h):
    bind_streams(h)
    h.assume("flush: only with a group that is taken", ~h.dut.flush | (h.dut.o.valid & h.dut.o.ready))
    groups = CONFIG.port_width // GROUP_BITS
    h.prove(f"left: at most {groups}", h.signal("left") <= groups)
    h.cover("flush with groups left", h.dut.flush & (h.signal("left") > 1))


@job("pack", lambda: Pack(CONFIG.port_width, GROUP_BITS))
def _pack(h):
    """One arbitrary place of the beats is followed: what comes there in a beat is what was given for it."""
    dut = h.dut
    groups = CONFIG.port_width // GROUP_BITS
    followed = h.constant(range(groups))
    given, expected, known = Signal(range(groups + 1)), Signal(GROUP_BITS), Signal()
    ends = dut.last | (given == groups - 1)
    with h.m.If(dut.o_valid):
        h.m.d.sync += known.eq(0)
    with h.m.If(dut.valid):
        h.m.d.sync += given.eq(Mux(ends, 0, given + 1))
        with h.m.If(given == followed):
            h.m.d.sync += [expected.eq(dut.i), known.eq(1)]
    place = h.signal("place")
    h.prove("place: the groups given for the beat", place == given)
    h.prove("o: a beat after its last group, and only then", dut.o_valid == h.before(dut.valid & ends))
    h.prove("o: each group in its place", ~known | (dut.o.word_select(followed, GROUP_BITS) == expected))
    h.cover("o: a full beat", dut.o_valid & h.before(~dut.last))
    h.cover("o: a beat of two groups", dut.o_valid & h.before(dut.last & (given == 1)))


@job("chunks", lambda: Chunks(CONFIG))
def _chunks(h):
    dut = h.dut
    h.prove("size: never more than is left", dut.size <= h.signal("left"))
    h.prove("size: something while valid", ~dut.valid | (dut.size != 0))
    h.cover("step to the last", h.before(dut.step & ~dut.last) & dut.last & dut.valid)


def _beats(h, read):
    """Beats come only for bursts asked for; returns their number."""
    due = Signal(12)
    asked = read.request.valid & read.request.ready
    h.m.d.sync += due.eq(due + (read.request.p.length + 1) * asked - (read.beats.valid & read.beats.ready))
    h.assume("read.beats: only those asked for", ~read.beats.valid | (due != 0))
    return due


@contextmanager
def _small_chunks():
    """An update unit with chunks of few weights, so that several of them fit into a search."""
    with ExitStack() as stack:
        for module in (chunks, update_read, update_write):
            stack.enter_context(patch.object(module, "chunk_weights", lambda config: FEW_WEIGHTS))
        yield


@job("update_reader", lambda: UpdateReader(CONFIG), cut=("t:$mem_v2",), patch=_small_chunks)
def _update_reader(h):
    dut = h.dut
    bind_streams(h)
    request_rule(h, "read.request", dut.read.request, MOMENTUM_BEATS)
    due = _beats(h, dut.read)
    places = {name: h.block(name) for name in ("requested", "received", "emitted")}
    quiet = ~Cat(place.valid for place in places.values()).any() & (due == 0)
    h.assume("start: only while nothing is under way", ~dut.start | (quiet & ~h.block("bursts").o.valid))
    h.assume("addr: multiples of the beat", sum(address & (CONFIG.beat_bytes - 1) for address in dut.addr) == 0)
    counter_rule(h, "slots", SLOTS)
    for name in array_bytes(CONFIG):
        fifo = h.block(f"beats_{name}")
        h.prove(f"beats_{name}: written only with room", ~fifo.w_en | fifo.w_rdy)
        h.cover(f"beats_{name}: written", fifo.w_en)
    h.cover("a group of the third chunk", dut.o.valid & (h.signal("emitted.left") + 2 * FEW_WEIGHTS < dut.count))


@job("update_writer", lambda: UpdateWriter(CONFIG), cut=("t:$mem_v2",), patch=_small_chunks)
def _update_writer(h):
    dut = h.dut
    bind_streams(h)
    request_rule(h, "write.request", dut.write.request, MOMENTUM_BEATS)
    begun = dut.write.request.valid & dut.write.request.ready
    under_way = h.count(begun, dut.write.answer.valid, 31)
    h.assume("write.answer: only to bursts begun", ~dut.write.answer.valid | (under_way != 0))
    h.assume("write.request: as many as the arbiter lets under way", ~begun | (under_way < 16))
    h.prove("outstanding counts the bursts", h.signal("outstanding") == under_way)
    # Groups come chunk by chunk, the chunks as the reader counts them off.
    h.m.submodules.emitted = emitted = Chunks(CONFIG)
    place = Signal.like(emitted.size)
    last = emitted.size - place <= CONFIG.update_lanes
    h.m.d.comb += [emitted.load.eq(dut.start), emitted.count.eq(dut.count), emitted.step.eq(dut.valid & last)]
    with h.m.If(dut.valid):
        h.m.d.sync += place.eq(Mux(last, 0, place + CONFIG.update_lanes))
    h.assume("start: only while nothing is under way", ~dut.start | (dut.idle & ~emitted.valid))
    h.assume("valid: groups of the command", ~dut.valid | emitted.valid)
    h.assume("last: with the last of a chunk", dut.i.last == last)
    h.assume("addr: multiples of the beat", sum(address & (CONFIG.beat_bytes - 1) for address in dut.addr) == 0)
    room = Signal(range(2 * SLOTS), init=SLOTS)
    h.m.d.sync += room.eq(room - (dut.valid & dut.i.last) + dut.freed)
    h.assume("valid: only while there is room", ~dut.valid | (room != 0))
    counter_rule(h, "ready", SLOTS)
    h.prove("ready: chunks that hold room", h.signal("ready") + room == SLOTS)
    for name in written_arrays(CONFIG):
        fifo = h.block(f"beats_{name}")
        waits = h.before(fifo.r_rdy & ~fifo.r_en)
        h.assume(f"beats_{name}: its output stands until taken", ~waits | (h.before(fifo.r_data) == fifo.r_data))
        h.prove(f"beats_{name}: written only with room", ~fifo.w_en | fifo.w_rdy)
        h.prove(f"beats_{name}: empty when all is written", h.block("chunks").valid | dut.valid | (fifo.level == 0))
        h.cover(f"beats_{name}: full", fifo.level == fifo.depth)
    h.prove("write.beats: all can be delivered at once", ~h.state("", "BEATS") | dut.write.beats.valid)
    h.cover("a third chunk is written", dut.freed & (h.signal("chunks.left") + 2 * FEW_WEIGHTS < dut.count))


@job("update", lambda: Update(CONFIG), depth=30, cut=("t:$mul", "t:$mem_v2"), patch=_small_chunks)
def _update(h):
    dut = h.dut
    bind_streams(h)
    request_rule(h, "read.request", dut.read.request, MOMENTUM_BEATS)
    request_rule(h, "write.request", dut.write.request, MOMENTUM_BEATS)
    for name in written_arrays(CONFIG):
        fifo = h.block(f"writer.beats_{name}")
        waits = h.before(fifo.r_rdy & ~fifo.r_en)
        h.assume(f"beats_{name}: its output stands until taken", ~waits | (h.before(fifo.r_data) == fifo.r_data))
    _beats(h, dut.read)
    counter_rule(h, "slots", SLOTS)
    begun = dut.write.request.valid & dut.write.request.ready
    under_way = h.count(begun, dut.write.answer.valid, 31)
    h.assume("write.answer: only to bursts begun", ~dut.write.answer.valid | (under_way != 0))
    h.assume("write.request: as many as the arbiter lets under way", ~begun | (under_way < 16))
