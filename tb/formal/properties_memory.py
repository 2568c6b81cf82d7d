"""Jobs: the memory port, its arbiters, bursts, scratchpad halves and the two DMA engines."""

from dataclasses import replace

from adagp.rtl.dma.bursts import Beats, Bursts, most_bits
from adagp.rtl.dma.fill import Fill
from adagp.rtl.dma.fill_requests import FillRequests
from adagp.rtl.dma.region_gate import RegionGate
from adagp.rtl.dma.segments import SegmentLayout, Segments
from adagp.rtl.dma.store import Store, _Answers, _Reader
from adagp.rtl.lib.register_slice import RegisterSlice
from adagp.rtl.memory.axi import BEGUN
from adagp.rtl.memory.scratchpad import PingPong
from adagp.spec.microcode.descriptors import FILL, STORE, Target
from amaranth import Cat, Signal

from .registry import CONFIG, job
from .rules import bind_streams, bind_tokens, counter_rule
from .rules_walks import beat_walk_rule, burst_walk_rule, levels_of, room_rule, segments_rule, skid_rule, slice_rule

__all__ = ["burst_form", "request_rule"]

FEW = 2
DESCRIPTORS = {"fill": FILL, "store": STORE}
BEAT_BITS = (CONFIG.beat_bytes - 1).bit_length()


def burst_form(valid, payload):
    """A request is a burst of whole beats within a page, and not too long."""
    inside = payload.addr[:12] + ((payload.length + 1) << BEAT_BITS) <= 4096
    return ~valid | ((payload.addr[:BEAT_BITS] == 0) & inside & (payload.length < CONFIG.max_burst_beats))


def request_rule(h, name, request, beats=CONFIG.max_burst_beats):
    """An arbiter's assumption: a client's requests are such bursts, of up to ``beats``."""
    h.prove(f"{name}: a burst within a page", burst_form(request.valid, request.p))
    h.cover(f"{name}: a burst of {beats} beats", request.valid & (request.p.length == beats - 1))


for _name, _bits in DESCRIPTORS.items():

    @job(f"segments_{_name}", lambda bits=_bits: Segments(bits, 32, 0))
    def _segments(h):
        bind_streams(h)
        valid = h.dut.o.valid
        segments_rule(h, "")
        for level in levels_of(h, ""):
            left = h.signal(f"left{level}")
            h.cover(f"left{level}: falls to 1", valid & (h.before(left) == 2) & (left == 1))


@job("bursts", lambda: Bursts(CONFIG, SegmentLayout(32, 0)))
def _bursts(h):
    bind_streams(h)
    o = h.dut.o
    most = (1 << len(h.dut.i.p.last)) // CONFIG.beat_elements + 1
    request_rule(h, "o", o)
    left = burst_walk_rule(h, "")
    h.prove("left: there is a beat for each burst", ~o.valid | (left > o.p.length))
    h.prove(f"left: at most {most}", ~o.valid | (left <= most))
    h.cover("left: reaches 0 after more than one burst", (h.before(left) > CONFIG.max_burst_beats) & (left == 1))
    h.prove("idle tells that nothing is offered", ~h.dut.idle | ~o.valid)


@job("beats", lambda: Beats(CONFIG, most_bits(CONFIG)))
def _beats(h):
    bind_streams(h)
    busy = h.before(~h.dut.idle)
    offsets = h.dut.offsets.as_value()
    h.assume("offsets are steady while not idle", ~busy | (h.before(offsets) == offsets))
    valid, left = h.dut.o.valid, h.signal("left")
    beat_walk_rule(h, "")
    h.prove("o: no beat without operands", ~valid | h.dut.o.p.mask.any())
    h.cover("left: the last of several beats", (h.before(left) == 1) & valid & (left == 0))


def _queue_rule(h, path):
    """The standing queue at ``path`` has a second item only after a first; returns both, each with a valid bit."""
    queue, near, far, stays = h.block(path), *(h.signal(f"{path}.{name}") for name in ("near", "far", "stays"))
    h.prove(f"{path}: a second item only after a first", ~stays | queue.r_rdy)
    h.prove(f"{path}: written with room, and what has stood", ~queue.w_en | (queue.w_rdy & (near == queue.w_data)))
    h.cover(f"{path}: full", queue.level == queue.DEPTH)
    return (queue.r_rdy, far), (stays, near)


def _ahead_rule(h, path):
    """Both the bursts and the data side get each segment, or neither."""
    segments, walk, ahead = (h.block(f"{path}{name}") for name in ("segments", "walk", "ahead"))
    moves = segments.o.valid & segments.o.ready
    h.prove(f"{path}segments: to the bursts", moves == (walk.i.valid & walk.i.ready))
    h.prove(f"{path}segments: to the data side", moves == (ahead.w_en & ahead.w_rdy))


@job("fill_requests", lambda: FillRequests(CONFIG), cut=("t:$mem_v2",))
def _fill_requests(h):
    bind_streams(h)
    bind_tokens(h)
    _queue_rule(h, "queue")
    segment = h.block("ahead").r_data
    h.assume("ahead: data stands while none is read",
             ~h.before(~h.block("ahead.memory").r_en) | (h.before(segment) == segment))  # fmt: skip
    request_rule(h, "request", h.dut.request)
    segments_rule(h, "segments")
    burst_walk_rule(h, "walk")
    _ahead_rule(h, "")
    h.prove("i: what it takes to take it is there", ~h.dut.i.ready | (h.dut.i.valid & h.block("segments").i.ready))


@job("fill", lambda: Fill(CONFIG), cut=("t:$mul", "t:$mem_v2"))
def _fill(h):
    """Also that no more halves are given on than were taken, where descriptors open and complete them in turn."""
    dut = h.dut
    bind_streams(h)
    bind_tokens(h)
    request_rule(h, "client.request", dut.client.request)
    walk = h.block("walk")
    segments_rule(h, "requests.segments")
    burst_walk_rule(h, "requests.walk")
    _ahead_rule(h, "requests.")
    beat_walk_rule(h, "walk")
    busy, offsets = h.before(~walk.idle), walk.offsets.as_value()
    h.prove("walk: its offsets are steady while it isn't idle", ~busy | (h.before(offsets) == offsets))
    h.prove("walk: idle between descriptors", h.state("", "MOVE") | walk.idle)
    h.prove("more: within a descriptor", h.state("", "MOVE") | ~h.signal("more"))
    layout = dut.i.p.shape()
    waiting = [(valid, layout(item)) for valid, item in _queue_rule(h, "requests.queue")]
    waiting.append((~h.state("", "IDLE"), layout(h.signal("d"))))
    step, bits = layout(h.signal("d")).step, len(walk.offsets[0])
    multiples = Cat((step * j)[:bits] for j in range(1, CONFIG.beat_elements + 1))
    h.prove("walk: its offsets are the descriptor's from its beginning on",
            h.state("", "IDLE") | h.state("", "BEGIN") | (offsets[bits:] == multiples))  # fmt: skip
    stages = [s for s in h.signals("stage") if len(s) == 3][: Fill.LANDING_CYCLES - 1]
    kinds = {"a": (Target.A, "a_full"), "b": (Target.B, "b_full"), "c": (None, "c_ready")}
    for number, (name, (target, given)) in enumerate(kinds.items()):
        taken, opened, held = Signal(), Signal(), Signal(range(16))

        def meant(d, target=target):
            return (d.target != Target.A) & (d.target != Target.B) if target is None else d.target == target

        h.m.d.comb += taken.eq(dut.i.valid & dut.i.ready & meant(dut.i.p))
        with h.m.If(taken):
            h.m.d.sync += opened.eq(~dut.i.p.ready)
        h.m.d.sync += held.eq(held + getattr(dut, f"{name}_free").take - getattr(dut, given))
        # No job proves it of the sequencer: tb/support/descriptor_grammar.py checks it wherever tests have descriptors.
        h.assume(f"i: opens and completes {name} in turn",
                 ~(dut.i.valid & meant(dut.i.p)) | (dut.i.p.open == ~opened))  # fmt: skip
        complete = sum(valid & meant(d) & d.ready for valid, d in waiting) + sum(stage[number] for stage in stages)
        h.prove(f"{given}: given for what was taken", held == opened + complete)
        h.cover(f"{given}: given", getattr(dut, given))


@job("region_gate_slices", lambda: RegionGate(replace(CONFIG, variant="max")))
@job("region_gate", lambda: RegionGate(CONFIG))
def _region_gate(h):
    bind_streams(h)
    dut = h.dut
    if isinstance(h.block("arrived"), RegisterSlice):
        for place in ("arrived", "leaving"):
            slice_rule(h, place)
    stopped = Signal()
    h.m.d.sync += stopped.eq(stopped | dut.fault)
    h.prove("a fault stays", ~stopped | dut.fault)
    offered = dut.request.valid & ~h.before(dut.request.valid & ~dut.request.ready)
    h.prove("no burst after a fault", ~(stopped & h.before(stopped)) | ~offered)
    inside = h.count(dut.i.valid & dut.i.ready, dut.request.valid & dut.request.ready, 7)
    h.prove("idle: no burst is inside", dut.idle == (inside == 0))
    h.cover("fault", dut.fault)


@job("answers", lambda: _Answers(CONFIG), depth=60)
def _answers(h):
    dut = h.dut
    outstanding = h.signal("outstanding")
    under_way = h.count(dut.begun, dut.answer.valid, 2 * BEGUN - 1)
    h.assume("answer: only to bursts begun", ~dut.answer.valid | (under_way != 0))
    h.assume("begun: as many as the arbiter takes", ~dut.begun | (under_way < BEGUN))
    h.assume("mark: only while not busy", ~dut.mark | ~dut.busy)
    counter_rule(h, "outstanding", BEGUN)
    h.prove("outstanding counts the bursts", outstanding == under_way)
    h.prove("before: of those under way", h.signal("before") <= outstanding)
    h.prove("complete: never before all that were marked", ~dut.complete | (h.signal("before") == 0))
    h.cover("complete after some answers", dut.complete & (outstanding == 2))


@job("store_reader", lambda: _Reader(CONFIG))
def _store_reader(h):
    bind_streams(h)
    h.assume("i: a beat has operands", ~h.dut.i.valid | h.dut.i.p.mask.any())
    _reader_rule(h, h.dut, "")
    h.prove("c: moves in every cycle, as nothing waits there", h.dut.c.en)
    h.cover("beats: as many wait as there is room for", h.signal("queue.level") == _Reader.ROOM)


def _reader_rule(h, reader, path):
    """Each beat that is taken is in the scratchpad's pipeline, or waits after it, where all of them have room."""
    taken, given = reader.i.valid & reader.i.ready, reader.beats.valid & reader.beats.ready
    here, level = h.count(taken, given, _Reader.ROOM), h.signal(f"{path}queue.level")
    *stages, leaves = (stage for stage in h.signals(f"{path}stage") if len(stage) in (1, CONFIG.beat_elements))
    reading = [stage.any() for stage in stages]
    room_rule(h, f"{path}queue", sum(reading))
    h.prove(f"{path}beats: in the pipeline, or after it", here == sum(reading) + level)
    h.prove(f"{path}beats: one leaves the pipeline from its last stage", leaves == reading[-1])


@job("store", lambda: Store(CONFIG), depth=50)
def _store(h):
    bind_streams(h)
    bind_tokens(h)
    dut = h.dut
    request_rule(h, "client.request", dut.client.request)
    begun = dut.client.request.valid & dut.client.request.ready
    under_way = h.count(begun, dut.client.answer.valid, 2 * BEGUN - 1)
    h.assume("client.answer: only to bursts begun", ~dut.client.answer.valid | (under_way != 0))
    h.assume("client.request: as many as the arbiter takes", ~begun | (under_way < BEGUN))
    counter_rule(h, "answers.outstanding", BEGUN)
    h.prove("answers.outstanding counts the bursts", h.signal("answers.outstanding") == under_way)
    # A tile's descriptors begin with ``begin`` and end with ``close``, as the tile program makes them
    # (tb/support/descriptor_grammar.py checks it).
    taken, opened, held = dut.i.valid & dut.i.ready, Signal(), Signal(2)
    with h.m.If(taken):
        h.m.d.sync += opened.eq(~dut.i.p.close)
    h.m.d.sync += held.eq(held + dut.drained.take - dut.c_free)
    h.assume("i: a tile from begin to close", ~dut.i.valid | (dut.i.p.begin == ~opened))
    d = dut.i.p.shape()(h.signal("d"))
    h.prove("c_free: given once for each token taken",
            held == (opened | (h.state("", "MOVE") & d.close)))  # fmt: skip
    answers, segments, bursts, walk = (h.block(name) for name in ("answers", "segments", "bursts", "walk"))
    segments_rule(h, "segments")
    burst_walk_rule(h, "bursts")
    beat_walk_rule(h, "walk")
    h.prove("answers: marked only while not busy", ~answers.mark | ~answers.busy)
    h.prove("segments: takes a descriptor at once", ~segments.i.valid | segments.i.ready)
    h.prove("segments: taken by both or none", (bursts.i.valid & bursts.i.ready) == (walk.i.valid & walk.i.ready))
    gate, reader = h.block("gate"), h.block("reader")
    _reader_rule(h, reader, "reader.")
    idle = bursts.idle & gate.idle & walk.idle & reader.idle & ~segments.o.valid & ~reader.beats.valid
    h.prove("nothing is under way between descriptors", h.state("", "MOVE") | idle)
    h.prove("ended: nothing is under way any more", ~h.signal("ended") | (idle & h.state("", "MOVE")))
    skid_rule(h, "gate.arrived", lambda burst: burst_form(1, burst))
    h.prove("main_done only when all is answered", ~dut.main_done | (h.signal("answers.before") == 0))
    h.cover("main_done", dut.main_done)
    h.cover("c_free", dut.c_free)
    h.cover("fault", dut.fault)


@job("ping_pong", lambda: PingPong(CONFIG, FEW), cut=("t:$mem_v2",))
def _ping_pong(h):
    """The block's own assertion follows from engines that never own the same half (jobs ``tokens_*``)."""
    dut = h.dut
    halves = {}
    for kind, wanted in (("write", lambda port: port.mask.any()), ("read", lambda port: port.valid & port.en)):
        ports = [getattr(dut, f"{kind}{number}") for number in range(2)]
        same = ports[0].addr[0][-1] == ports[1].addr[0][-1]
        both = wanted(ports[0]) & wanted(ports[1])
        halves[kind] = both & ~same
        if kind == "write":
            h.assume("write: no half through both ports at once", ~both | ~same)
        h.cover(f"{kind}: different halves at once", halves[kind])
    for half in range(2):
        banks = h.block(f"half{half}")
        writers = [h.block(f"writer{number}") for number in range(2)]
        for number, writer in enumerate(writers):
            here = writer.any & (writer.half == half)
            h.prove(f"half {half}: written as port {number} says",
                    ~here | ((banks.w_mask == writer.mask) & (banks.w_addr.as_value() == Cat(
                        writer.addr[bank][: len(banks.w_addr[bank])] for bank in range(CONFIG.banks)))))  # fmt: skip
        idle = ~Cat(writer.any & (writer.half == half) for writer in writers).any()
        h.prove(f"half {half}: written only then", ~idle | (banks.w_mask == 0))
