"""Jobs: operand fetch, feeder, batch norm's unit, compute, drain."""

from dataclasses import replace
from unittest.mock import patch

from adagp.rtl.compute import im2col
from adagp.rtl.compute.block_im2col import BlockIm2col
from adagp.rtl.compute.compute import Compute
from adagp.rtl.compute.feeder import Feeder
from adagp.rtl.compute.im2col import Im2col
from adagp.rtl.compute.lane_offsets import LaneOffsets
from adagp.rtl.core import HALVES
from adagp.rtl.drain.drain import Drain
from adagp.rtl.drain.epilogue import Epilogue
from adagp.rtl.drain.walk import DrainWalk
from adagp.rtl.lib.gearbox import Pack, Unpack
from adagp.rtl.lib.maximum import Maximum
from adagp.rtl.lib.odometer import COUNT_BITS, Odometer
from adagp.rtl.norm.norm import Norm
from adagp.rtl.norm.scale import Scale
from adagp.rtl.norm.tables import Tables
from adagp.rtl.update.chunks import Chunks, chunk_weights
from amaranth import Cat, Mux, ResetSignal, Signal

from .properties_registers import RESULT_GAP, recent_results
from .properties_reorganise import FOLDED, REORGANISES, sums_given
from .properties_sums import SUMS, SUMS_DEPTH
from .registry import CONFIG, job
from .rules import bind_streams, bind_tokens
from .rules_blocks import blocks_rule
from .rules_compute import accumulator_rule, feeder_rule, operand_rule, vectors_rule
from .rules_walks import chunks_rule, odometer_rule, skid_rule, stood_rule, unpack_rule

__all__ = []

# What is assumed of descriptors (something to reduce, taps, GEMMs in turn, something to drain) no job proves of the
# sequencer: tb/support/descriptor_grammar.py checks it wherever tests have descriptors.

APART = 5
"""Cycles from a pass to the next one, as the machine's feeder has it, or so: any number must do."""
DEPTHWISE, NORM = replace(CONFIG, depthwise=True), replace(CONFIG, batch_norm=True)
CLAMPS = replace(CONFIG, clamps=True)
ADDRESS_BITS = (CONFIG.a_depth * CONFIG.banks - 1).bit_length()
GROUP_BITS = 16
SUMS_CUT = "t:$mem_v2 c:*.queue.* %d"
"""Memories of sums, not those of vectors' queues, whose ends count."""
DATA = ("t:$mul",)
"""Cells that are cut out of blocks whose rules don't depend on results."""


@job("odometer", lambda: Odometer(3, 12))
def _odometer(h):
    n = h.dut.n
    in_range = [(n[level] != 0) & (n[level] <= 1 << (COUNT_BITS - 1)) for level in range(3)]
    h.assume("n: at least 1, and what its counter holds", ~h.dut.start | Cat(in_range).all())
    odometer_rule(h, "", h.assume)
    for level in range(3):
        left = h.signal(f"left{level}")
        h.cover(f"left{level}: falls to its last turn", (h.before(left) == 2) & (left == 1))


@job("lane_offsets", lambda: LaneOffsets(CONFIG, ADDRESS_BITS))
def _lane_offsets(h):
    bind_streams(h)
    h.prove("lane: one of them, the first unless they are being made",
            Mux(h.signal("making"), h.signal("lane") < CONFIG.rows, h.signal("lane") == 0))  # fmt: skip
    h.prove("making: for a walk", ~h.signal("making") | h.signals("busy")[-1])
    taken = h.dut.walk.valid & h.dut.walk.ready
    h.assume("walk: reduces something", ~taken | (h.dut.walk.p.n_k != 0))
    h.prove("o: a group has lanes", ~h.dut.o.valid | (h.dut.o.p.lanes != 0))
    h.prove("left: there is an element for each group", ~h.dut.o.valid | (h.signal("left") != 0))


@job("block_im2col", lambda: BlockIm2col(SUMS, SUMS_DEPTH, (2, 1)), depth=50)
@job("operand_depthwise", lambda: Im2col(DEPTHWISE, CONFIG.a_depth), depth=50)
@job("operand", lambda: Im2col(CONFIG, CONFIG.a_depth), depth=50)
def _operand(h):
    bind_streams(h)
    bind_tokens(h)
    walk = h.dut.walk
    h.prove("start: of a walk that is prepared, with its tile, after the one before", ~walk.ready | (
        walk.valid & h.signal("prepared") & (~walk.payload.new | h.dut.full.avail) & ~h.signals("busy")[-1]
    ))  # fmt: skip
    h.prove("offered: a walk that isn't prepared", ~h.signal("offered") | (walk.valid & ~h.signal("prepared")))
    stood_rule(h, "offsets.odometer", h.prove)
    held = operand_rule(h, "", h.dut.full, h.dut.free)
    h.prove("free: the half in use isn't given back", ~h.dut.free | (held == HALVES))
    vectors = vectors_rule(h, "", h.dut)
    h.cover("queue.used: no room for another", h.signal("queue.used") == h.block("queue").depth)
    h.cover("a walk ends", h.dut.o.valid & h.dut.o.p.end_walk)
    h.cover("free", h.dut.free)
    if isinstance(h.dut, BlockIm2col):
        blocks_rule(h, vectors)
    else:
        stood_rule(h, "odometer", h.prove)


@job("feeder", lambda: Feeder(CONFIG, APART), cut=DATA)
def _feeder(h):
    bind_streams(h)
    bind_tokens(h)
    vector = h.dut.stream
    h.assume("stream: a walk ends with a pass", ~(vector.valid & vector.p.end_walk) | vector.p.end_pass)
    feeder_rule(h, "")
    h.prove(f"settling: at most {APART - 2}", h.signal("settling") < APART - 1)
    h.prove("settled: while nothing is counted", h.signal("settled") == (h.signal("settling") == 0))
    h.cover("settling: ends", (h.before(h.signal("settling")) == 1) & (h.signal("settling") == 0))
    lately = [h.before(h.dut.swap)]
    while len(lately) < APART - 1:
        lately.append(h.before(lately[-1]))
    h.prove(f"swap: passes begin at least {APART} cycles apart", ~(h.dut.swap & Cat(lately).any()))
    h.prove(f"columns: at most {CONFIG.cols}", h.signal("columns") <= CONFIG.cols)
    h.cover(f"columns: {CONFIG.cols}", h.signal("columns") == CONFIG.cols)
    column = h.signal("column")
    h.prove("column: one of them", (column != 0) & ((column & (column - 1)) == 0))
    h.prove("load: into one column", ~h.dut.load.any() | (h.dut.load == column))


@job("norm_scale", lambda: Scale(NORM), cut=DATA)
def _norm_scale(h):
    bind_streams(h)
    h.prove("busy while a result waits", ~h.dut.o.valid | h.dut.busy)
    h.prove("constants: a group's are complete only after the ones in use were read",
            ~(h.signal("ready") & h.signal("held")))  # fmt: skip
    h.cover("constants: the next group's come while a value is taken", h.signal("loaded") & h.signal("taken"))
    h.cover("o: a result", h.dut.o.valid & h.dut.o.ready)


@job("norm_tables", lambda: Tables(NORM), cut=(*DATA, "t:$mem_v2"), far=("o: ",))
def _norm_tables(h):
    bind_streams(h)
    h.prove("busy while a result waits", ~h.dut.o.valid | h.dut.busy)


@job("norm", lambda: Norm(NORM), cut=(*DATA, "t:$mem_v2"), far=("o: ",))
def _norm(h):
    bind_streams(h)
    is_table = h.signal("is_table")
    for name, other in (("scale", is_table), ("tables", ~is_table)):
        h.prove(f"{name}: works on jobs of its own alone", ~(h.block(name).busy & other))
    h.prove("busy while a result waits", ~h.dut.o.valid | h.dut.busy)


def _few_vectors():
    """Fetchers have room for few vectors, rarely for several in a row; jobs of their own have room for all."""
    return patch.object(im2col, "ROOM", 2)


@job("compute_depthwise", lambda: Compute(DEPTHWISE), cut=("t:$mul", SUMS_CUT), patch=_few_vectors)
@job("compute", lambda: Compute(CONFIG), cut=("t:$mul", SUMS_CUT), patch=_few_vectors)
def _compute(h):
    bind_streams(h)
    h.assume("reset: comes with the engine's own", ~h.dut.resets.any() | ResetSignal())
    bind_tokens(h)
    for name in ("a", "b"):
        operand_rule(h, f"fetch_{name}.", getattr(h.dut, f"{name}_full"), getattr(h.dut, f"{name}_free"))
        vectors_rule(h, f"fetch_{name}.", h.block(f"fetch_{name}"))
    feeder_rule(h, "feeder.")
    accumulator_rule(h)
    stalls = [h.dut.stall_idle, h.dut.stall_a, h.dut.stall_b, h.dut.stall_drain, h.dut.stall_load, h.dut.active]
    h.prove("each cycle counts once", sum(stalls) == 1)


@job("drain_walk", lambda: DrainWalk(CONFIG))
def _drain_walk(h):
    d, step = h.dut.d, h.dut.step
    h.assume("d: something to drain", ~(h.dut.start | step.valid) | ((d.n_out != 0) & (d.n_in != 0)))
    running = h.before(step.valid & ~(step.last & h.dut.en) | h.dut.start)
    h.assume("d: stands until the last step", ~running | (h.before(d.as_value()) == d.as_value()))
    h.assume("start: only while nothing is under way", ~h.dut.start | ~step.valid)
    for level in ("n_out", "n_in"):
        left = h.signal(f"{level}_left")
        h.prove(f"{level}: never more left than there are", ~step.valid | ((left != 0) & (left <= d[level])))
    h.cover("last of several steps", step.valid & step.last & (h.signal("n_in_left") != d.n_in))


@job("drain_clamps", lambda: Drain(CLAMPS), depth=50, cut=("t:$mul", "t:$mem_v2"))
@job("drain_reorganise", lambda: Drain(REORGANISES), depth=50, cut=("t:$mul", "t:$mem_v2"))
@job("drain_folded", lambda: Drain(FOLDED), depth=50, cut=("t:$mul", "t:$mem_v2"))
@job("drain", lambda: Drain(CONFIG), depth=50, cut=("t:$mul", "t:$mem_v2"))
def _drain(h):
    dut = h.dut
    bind_streams(h)
    bind_tokens(h)
    something = (dut.i.p.n_out != 0) & (dut.i.p.n_in != 0)
    h.assume("i: something to drain", ~dut.i.valid | something)
    # What the walk's job counts on.
    walk = h.block("walk")
    running = h.before(walk.step.valid & ~(walk.step.last & walk.en) | walk.start)
    h.prove("walk: its descriptor stands until the last step",
            ~running | (h.before(walk.d.as_value()) == walk.d.as_value()))  # fmt: skip
    h.prove("walk: started only while nothing is under way", ~walk.start | ~walk.step.valid)
    h.prove("walk: something to drain", ~(walk.start | walk.step.valid) | ((walk.d.n_out != 0) & (walk.d.n_in != 0)))
    # Where a descriptor's last vector is: still in the walk, in the skid behind it, on its way to the epilogue, or
    # behind its entrance.
    stages = h.signals("stage")
    step, steps = walk.step, h.block("steps")
    skid_rule(h, "steps")
    waiting = [(~steps.i.ready, step.shape()(h.signal("steps.spare"))), (steps.o.valid, steps.o.p)]
    entering = [step.shape()(s) for s in stages if len(s) == step.shape().size][-Drain.READ_STAGES :]
    bits, before = [s for s in stages if len(s) == 1], 2 * Drain.READ_STAGES - 4  # those of the two chains made first
    under_way = [*waiting, *zip(bits[before:], entering, strict=False)]
    ahead = Cat(step.valid, (valid & stage.last for valid, stage in under_way))
    behind = Cat(bits[-1 - Epilogue.LATENCY - Maximum.LATENCY :])
    h.prove("acc: it is known a cycle ahead when words move", h.before(dut.acc.next_en, init=1) == dut.acc.en)
    runs = h.state("", "RUN")
    h.prove("a descriptor has one end", sum([*ahead, *behind]) == runs)
    credits = {"acc_free": dut.acc_full.take, "drained": dut.c_ready.take}
    for name, taken in credits.items():
        held = Signal(range(4), name=f"held_{name}")
        h.m.d.sync += held.eq(held + taken - getattr(dut, name))
        h.prove(f"{name}: given once for each token taken", held <= 1)
        h.cover(f"{name}: given", getattr(dut, name))
        now = runs if name == "drained" else (ahead.any() | behind[0]) & ~walk.d.vector & ~walk.d.zeros
        h.prove(f"{name}: one is held until the end", held == now)
    h.prove("result_valid comes with drained", ~dut.result_valid | dut.drained)
    _moves_rule(h, entering[-1], under_way[-1][0])
    if dut._config.reorganises:
        sums_given(h, walk, sum(valid for valid, _ in under_way), runs)
    # What the shadows' job counts on: the further a descriptor's end, the longer ago the result before.
    history = recent_results(h, "drain", dut.result_valid)
    h.prove("start: in its state", walk.start == h.state("", "START"))
    h.prove("WAIT: a cycle after a result", ~h.state("", "WAIT") | ~history[0])
    h.prove("START: two cycles after a result", ~h.state("", "START") | ~history[:2].any())
    for place, end in enumerate([*ahead, *behind]):
        age = min(place + 3 - (place > 1), RESULT_GAP)  # the skid is passed in a cycle
        h.prove(f"end {place}: no result in the {age} cycles before", ~end | ~history[:age].any())
    h.prove(f"results are {RESULT_GAP} cycles apart", ~dut.result_valid | (history == 0))


def _moves_rule(h, entering, enters):
    """What was decided a cycle before: the pipeline moves on unless what the vector at its end needs isn't there."""
    config, d, en, vectors = h.dut._config, h.block("walk").d, h.block("steps").o.ready, h.block("vectors")
    wanted, held, last = h.signal("wanted"), 0, 1
    pooled = d.vector & ~d.reorganise if config.reorganises else d.vector
    h.prove("wanted: a pooled vector enters", wanted == (enters & pooled))
    if config.reorganises:
        reorganise = h.block("reorganise")
        held = enters & d.reorganise & Mux(d.vector, ~reorganise.o.valid, ~reorganise.ready)
        h.prove("reorganise: a vector enters only while it is ready",
                ~(reorganise.enter & d.reorganise & ~d.vector) | reorganise.ready)  # fmt: skip
    passes = ~(wanted & ~vectors.o.valid) & ~held
    if config.folds(config.result_lanes) > 1:
        groups = h.block("groups")
        last = ~groups.more
        h.prove("passes: a group, if what it needs is there", groups.step == passes)
        h.prove("more: only of a vector", ~groups.more | enters)
        h.cover("a group waits for its vector", wanted & groups.more & ~vectors.o.valid)
    h.prove("en: the pipeline moves on unless the vector at its end must wait", en == (passes & last))
    h.prove("vector: only one that is wanted is taken", ~(vectors.o.valid & vectors.o.ready) | (wanted & en))
    h.cover("a vector is waited for", h.before(wanted & ~vectors.o.valid) & wanted & vectors.o.valid)


@job("unpack", lambda: Unpack(CONFIG.port_width, GROUP_BITS))
def _unpack(h):
    bind_streams(h, unless={"o": h.dut.flush})
    h.assume("flush: while no beat comes", ~h.dut.flush | ~(h.dut.i.valid & h.dut.i.ready))
    groups = CONFIG.port_width // GROUP_BITS
    left = unpack_rule(h, "")
    h.prove(f"left: at most {groups}", left <= groups)
    h.cover("flush with groups left", h.dut.flush & (left > 1))


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
    h.assume("count: stands since the cycle before load", ~dut.load | (h.before(dut.count) == dut.count))
    left = chunks_rule(h, "", chunk_weights(CONFIG), h.assume)
    owed = Signal.like(dut.count)
    with h.m.If(dut.load):
        h.m.d.sync += owed.eq(dut.count)
    with h.m.Elif(dut.step):
        h.m.d.sync += owed.eq(owed - dut.size)
    h.prove("left: the count less the chunks before", left == owed)
    h.prove("end: the size less one", ~dut.valid | (dut.end + 1 == dut.size))
    h.prove("size: never more than is left", ~dut.valid | (dut.size <= left))
    h.prove("size: something while valid", ~dut.valid | (dut.size != 0))
    h.cover("step to the last", h.before(dut.step & ~dut.last) & dut.last & dut.valid)
