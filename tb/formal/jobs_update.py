"""Jobs: the update unit and its two sides.

Where the beats of each array are, said in full, makes the rules inductive. The two sides are proved with full chunks,
without any search; with chunks of few weights once more, so that several of them come within the depth that can be
searched for covers. Reader and writer together (job ``update``) are proved for chunks of few weights only.
"""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from adagp.rtl import chunks, update_read, update_write
from adagp.rtl.update import Update
from adagp.rtl.update_lane import UpdateLane
from adagp.rtl.update_read import SLOTS, UpdateReader, array_bytes
from adagp.rtl.update_write import UpdateWriter, written_arrays
from amaranth import Cat, Mux, Signal, Value, signed

from .jobs_memory import request_rule
from .registry import CONFIG, job
from .rules import bind_streams, counter_rule, fifo_rule

__all__ = []

FEW_WEIGHTS = 8
"""In a chunk: its arrays fill more than a beat each."""
BEAT_BITS = (CONFIG.beat_bytes - 1).bit_length()
OUTSTANDING = 16
UNDER_WAY_BITS = 12
"""Of the number of beats asked for that haven't come: two chunks' at most."""
MEMORY = ("t:$mem_v2",)
"""Cut: what lies in FIFOs is of no interest."""


def _weights():
    """In a full chunk of the job that is being bound."""
    return chunks.chunk_weights(CONFIG)


def _momentum_beats():
    return _weights() * array_bytes(CONFIG)["v"] // CONFIG.beat_bytes


@contextmanager
def _small_chunks():
    with ExitStack() as stack:
        for module in (chunks, update_read, update_write):
            stack.enter_context(patch.object(module, "chunk_weights", lambda config: FEW_WEIGHTS))
        yield


@dataclass(frozen=True)
class Place:
    """A place in the sequence of chunks: weights ``left``, and ``size`` of the present chunk."""

    left: Value
    size: Value

    def third(self, count):
        """Whether two full chunks are done, if ``count`` were there at the start."""
        return (self.size != 0) & (self.left + 2 * _weights() < count)


def _chunks(h, path):
    return Place(h.signal(f"{path}.left"), h.block(path).size)


def _beats_of(weights, element_bytes):
    """Beats that some weights' elements of an array fill."""
    return (weights * element_bytes + CONFIG.beat_bytes - 1) >> BEAT_BITS


def _between(h, name, first: Place, second: Place):
    """Weights that are left to ``second`` but not to ``first``: whole chunks, as many as there is room for."""
    difference, ahead = second.left - first.left, Signal(range(2 * SLOTS * _weights()))
    h.m.d.comb += ahead.eq(difference)
    h.prove(f"{name}: at most {SLOTS} chunks", (difference >= 0) & (difference <= SLOTS * _weights()))
    h.prove(f"{name}: whole chunks", (first.left == 0) | (ahead % _weights() == 0))
    return ahead


def _walk_rule(h, path):
    """A walk whose descriptors are one segment each, from a whole beat on. Returns the beats it has left to ask for."""
    walk, segment = h.block(path), h.block(f"{path}.segments").o
    more = [h.signal(f"{path}.segments.left{level}") for level in range(2)]
    left = h.signal(f"{path}.left")
    h.prove(f"{path}: one segment each", ~segment.valid | ~Cat(more).any())
    h.prove(f"{path}: from a whole beat on", ~segment.valid | (segment.p.place.dram[:BEAT_BITS] == 0))
    h.prove(f"{path}: something each", ~segment.valid | (segment.p.length != 0))
    h.prove(f"{path}: a burst has beats", ~walk.o.valid | (left != 0))
    beats = _beats_of(segment.p.length, CONFIG.operand_bytes)
    return Mux(segment.valid, beats, 0) + Mux(walk.o.valid, left, 0)


def _aligned(addr):
    """Whether addresses, one after the other in a value, are multiples of the beat."""
    value = Value.cast(addr)
    return Cat(value[at : at + BEAT_BITS] for at in range(0, len(value), 32)) == 0


def _beats_due(h, read):
    """Beats come only for bursts asked for; returns their number."""
    due = Signal(UNDER_WAY_BITS)
    asked = read.request.valid & read.request.ready
    h.m.d.sync += due.eq(due + (read.request.p.length + 1) * asked - (read.beats.valid & read.beats.ready))
    h.assume("read.beats: only those asked for", ~read.beats.valid | (due != 0))
    return due


def _reading(h, prefix, due):
    """Where the beats of the reader ``prefix`` are, ``due`` of them still to come; returns the chunk it gives out."""
    sizes = array_bytes(CONFIG)
    requested, received, emitted = (_chunks(h, prefix + name) for name in ("requested", "received", "emitted"))
    asking, coming = h.signals(f"{prefix}array")
    place, beat, slots = (h.signal(prefix + name) for name in ("place", "beat", "slots"))
    in_use = _between(h, f"{prefix}requested, not given out", requested, emitted)
    landed = _between(h, f"{prefix}received, not given out", received, emitted)
    _between(h, f"{prefix}requested, not received", requested, received)
    h.prove(f"{prefix}slots: those in use are requested",
            slots + ((in_use + _weights() - 1) // _weights()) == SLOTS)  # fmt: skip
    h.prove(f"{prefix}a chunk is asked for with room", (asking == 0) | ((slots != 0) & (requested.left != 0)))
    h.prove(f"{prefix}a chunk comes if one is left", ((coming == 0) & (beat == 0)) | (received.left != 0))
    h.prove(f"{prefix}place: in the chunk", (place < emitted.size) | ((place == 0) & (emitted.left == 0)))
    h.prove(f"{prefix}addr: whole beats", _aligned(h.signal(f"{prefix}addr")))

    def before(array, size):
        """Beats of a chunk that belong to the arrays before ``array``."""
        return sum(Mux(array > k, _beats_of(size, bytes_), 0) for k, bytes_ in enumerate(sizes.values()))

    full, size_bits = sum(_beats_of(_weights(), bytes_) for bytes_ in sizes.values()), _weights().bit_length() - 1

    def of_all(weights):
        """Beats that so many weights fill in all arrays, chunk by chunk."""
        rest = sum(_beats_of(weights[:size_bits], bytes_) for bytes_ in sizes.values())
        return weights[size_bits : size_bits + UNDER_WAY_BITS] * full + rest

    # Beats of the command that aren't asked for yet, and that haven't come; both modulo what is ever under way.
    to_ask, to_come = (Signal(UNDER_WAY_BITS, name=name) for name in ("to_ask", "to_come"))
    asks, reader, beats = h.block(f"{prefix}bursts").i, h.block(prefix[:-1]), h.block(prefix[:-1]).read.beats
    h.m.d.sync += to_ask.eq(to_ask - Mux(asks.valid & asks.ready, _beats_of(asks.p.length, CONFIG.operand_bytes), 0))
    h.m.d.sync += to_come.eq(to_come - (beats.valid & beats.ready))
    with h.m.If(reader.start):
        h.m.d.sync += [to_ask.eq(of_all(reader.count)), to_come.eq(of_all(reader.count))]
    not_asked = of_all(requested.left) - before(asking, requested.size)
    not_come = of_all(received.left) - before(coming, received.size) - beat
    h.prove(f"{prefix}beats to be asked for", to_ask == not_asked[:UNDER_WAY_BITS])
    h.prove(f"{prefix}beats to come", to_come == not_come[:UNDER_WAY_BITS])
    under_way = (to_come - to_ask)[:UNDER_WAY_BITS]
    h.prove(f"{prefix}beats under way: at most {SLOTS} chunks", under_way <= SLOTS * full)
    h.prove(f"{prefix}beats due are those asked for", due + _walk_rule(h, f"{prefix}bursts") == under_way)
    for k, (name, bytes_) in enumerate(sizes.items()):
        fifo, left = h.block(f"{prefix}beats_{name}"), h.signal(f"{prefix}unpack_{name}.left")
        groups = CONFIG.beat_bytes // bytes_ // CONFIG.update_lanes
        whole = _beats_of(received.size, bytes_)
        h.prove(f"{prefix}{name}: beats of its share", (coming != k) | (beat == 0) | (beat < whole))
        h.prove(f"{prefix}{name}: whole beats are taken", (place + left) % groups == 0)
        h.prove(f"{prefix}{name}: what came and isn't taken is held", fifo.level + (place + left) // groups
                == _beats_of(landed, bytes_) + Mux(coming == k, beat, Mux(coming > k, whole, 0)))  # fmt: skip
        # One beat is always taken at once. In the whole unit full FIFOs are too far from reset to be searched.
        fifo_rule(h, f"{prefix}beats_{name}", fifo, reach=fifo.depth - 1, covers=not prefix)
    return emitted


@job("update_reader_full", lambda: UpdateReader(CONFIG), depth=None, cut=MEMORY)
@job("update_reader", lambda: UpdateReader(CONFIG), depth=60, cut=MEMORY, patch=_small_chunks)
def _update_reader(h):
    dut = h.dut
    bind_streams(h)
    request_rule(h, "read.request", dut.read.request, _momentum_beats())
    counter_rule(h, "slots", SLOTS)
    due = _beats_due(h, dut.read)
    emitted = _reading(h, "", due)
    under_way = Cat(h.signal(f"{name}.left") for name in ("requested", "received", "emitted")).any() | (due != 0)
    h.assume("start: only while nothing is under way", ~dut.start | ~under_way)
    h.assume("addr: multiples of the beat at start", ~dut.start | _aligned(dut.addr))
    h.cover("a group of a third chunk", dut.o.valid & emitted.third(dut.count))


def _output_stands(h, prefix):
    """Of the writer's FIFOs, whose memories are cut: an output stands until taken, for its read port is off then."""
    for name in written_arrays(CONFIG):
        fifo = h.block(f"{prefix}beats_{name}")
        waits = h.before(fifo.r_rdy & ~fifo.r_en)
        h.assume(f"{prefix}beats_{name}: its output stands", ~waits | (h.before(fifo.r_data) == fifo.r_data))


def _answered(h, write):
    """Answers come to bursts begun; returns how many are due."""
    begun = write.request.valid & write.request.ready
    due = h.count(begun, write.answer.valid, 2 * OUTSTANDING - 1)
    h.assume("write.answer: only to bursts begun", ~write.answer.valid | (due != 0))
    h.assume("write.request: as many as the arbiter lets under way", ~begun | (due < OUTSTANDING))
    return due


def _writing(h, prefix, given: Place, place):
    """Where the beats of the writer ``prefix`` are, which was given ``place`` weights of the chunk ``given``."""
    writing = _chunks(h, f"{prefix}chunks")
    chunk, request, moving = (h.state(prefix[:-1], state) for state in ("CHUNK", "REQUEST", "BEATS"))
    array, ready, left = (h.signal(prefix + name) for name in ("array", "ready", "left"))
    walk = h.block(f"{prefix}walk")
    walking = h.block(f"{prefix}walk.segments").o.valid
    complete = _between(h, f"{prefix}given, not written", given, writing)
    behind = Signal.like(complete)
    h.m.d.comb += behind.eq(complete - writing.size)
    sizes = written_arrays(CONFIG)
    h.prove(f"{prefix}ready: the chunks that are complete", ready == (complete + _weights() - 1) // _weights())
    h.prove(f"{prefix}array: one of them", array < len(sizes))
    h.prove(f"{prefix}what is written is complete", (chunk & (array == 0)) | (ready != 0))
    h.prove(f"{prefix}place: in the chunk", (place < given.size) | ((place == 0) & (given.left == 0)))
    h.prove(f"{prefix}place: with room", (place == 0) | (ready != SLOTS))
    h.prove(f"{prefix}addr: whole beats", _aligned(h.signal(f"{prefix}addr")))
    h.prove(f"{prefix}walk: one segment at a time", ~walking | (request & ~walk.o.valid))
    h.prove(f"{prefix}walk: idle between arrays", ~chunk | walk.idle)
    walked = _walk_rule(h, f"{prefix}walk") + Mux(moving, left + 1, 0)
    for k, (name, bytes_) in enumerate(sizes.items()):
        fifo, pack = h.block(f"{prefix}beats_{name}"), h.block(f"{prefix}pack_{name}")
        groups = CONFIG.beat_bytes // bytes_ // CONFIG.update_lanes
        share = _beats_of(writing.size, bytes_)
        rest = Mux(chunk, share, walked)  # of this array, while its turn is
        h.prove(f"{prefix}{name}: no more is left of it than its share", (array != k) | chunk | (walked <= share))
        held = Mux(array > k, 0, Mux(array == k, rest, share))
        begun = (place * bytes_) >> BEAT_BITS
        h.prove(f"{prefix}{name}: place in the beat", h.signal(f"{prefix}pack_{name}.place") == place % groups)
        h.prove(f"{prefix}{name}: what is given and not written is held", fifo.level + pack.o_valid
                == Mux(ready == 0, 0, _beats_of(behind, bytes_) + held) + begun)  # fmt: skip
        early = chunk & (array == 0)
        only = (begun == 0) & (ready != 0) & (behind == 0)
        h.prove(f"{prefix}{name}: a chunk's last beat comes before its turn", ~(pack.o_valid & only) | early)
        waits = (ready != 0) & ((array < k) | ((array == k) & (rest != 0)))
        h.prove(f"{prefix}{name}: a beat is there", ~waits | fifo.r_rdy | early | ((array == 0) & walking))
        fifo_rule(h, f"{prefix}beats_{name}", fifo, covers=not prefix)
    h.prove(f"{prefix}walk: the array's share of the chunk", ~walking | (
        h.block(f"{prefix}walk.segments").o.p.length
        == sum(Mux(array == k, writing.size * (bytes_ // CONFIG.operand_bytes), 0)
               for k, bytes_ in enumerate(sizes.values()))))  # fmt: skip
    h.prove(f"{prefix}write.beats: delivered without a pause", ~moving | h.block(prefix[:-1]).write.beats.valid)
    return writing


def _given(h, writer, count):
    """Counts off what a writer is given, as the reader does: the chunk, its weights so far, whether this is its end."""
    left, place = Signal(32, name="given_left"), Signal(range(_weights()), name="given_place")
    given = Place(left, Mux(left < _weights(), left, _weights()))
    last = given.size - place <= CONFIG.update_lanes
    with h.m.If(writer.start):
        h.m.d.sync += left.eq(count)
    with h.m.If(writer.valid):
        h.m.d.sync += place.eq(Mux(last, 0, place + CONFIG.update_lanes))
        with h.m.If(last):
            h.m.d.sync += left.eq(left - given.size)
    return given, place, last


@job("update_writer_full", lambda: UpdateWriter(CONFIG), depth=None, cut=MEMORY)
@job("update_writer", lambda: UpdateWriter(CONFIG), depth=60, cut=MEMORY, patch=_small_chunks)
def _update_writer(h):
    dut = h.dut
    bind_streams(h)
    request_rule(h, "write.request", dut.write.request, _momentum_beats())
    counter_rule(h, "ready", SLOTS)
    _output_stands(h, "")
    h.prove("outstanding counts the bursts", h.signal("outstanding") == _answered(h, dut.write))
    given, place, last = _given(h, dut, dut.count)
    writing = _writing(h, "", given, place)
    h.assume("start: only while nothing is under way", ~dut.start | (dut.idle & (given.left == 0)))
    h.assume("addr: multiples of the beat at start", ~dut.start | _aligned(dut.addr))
    h.assume("valid: groups of the command, while there is room",
             ~dut.valid | ((given.left != 0) & (h.signal("ready") != SLOTS)))  # fmt: skip
    h.assume("i.last: with the last group of a chunk", ~dut.valid | (dut.i.last == last))
    h.cover("a third chunk is written", dut.freed & writing.third(dut.count))


@job("update", lambda: Update(CONFIG), depth=60, cut=("c:*lane*", *MEMORY), patch=_small_chunks)
def _update(h):
    """Reader, lanes and writer together, for chunks of few weights only.

    What the jobs of reader and writer assume of each other, and of starts and addresses, is proved; of the memory port
    it is assumed here as there.
    """
    dut = h.dut
    bind_streams(h)
    request_rule(h, "read.request", dut.read.request, _momentum_beats())
    request_rule(h, "write.request", dut.write.request, _momentum_beats())
    _output_stands(h, "writer.")
    due = _beats_due(h, dut.read)
    answers = _answered(h, dut.write)
    counter_rule(h, "slots", SLOTS)
    h.prove("writer.outstanding counts the bursts", h.signal("writer.outstanding") == answers)
    reader, writer = h.block("reader"), h.block("writer")
    emitted = _reading(h, "reader.", due)
    task = dut.i.p.shape()(h.signal("task"))
    given, place, last = _given(h, writer, task.count)
    _writing(h, "writer.", given, place)

    # Groups on their way through the lanes, the latest first: valid ones, ends of chunks, the end of all.
    length, stages = UpdateLane.LATENCY, [s for s in h.signals("stage") if len(s) == 1]
    valid, lasts, finals = stages[:length], stages[2 * length : 3 * length], stages[3 * length :]
    ends = sum(there & end for there, end in zip(valid, lasts, strict=True))
    h.prove(
        "slots: room, or chunks in the lanes or the writer",
        h.signal("slots") + ends + h.signal("writer.ready") == SLOTS,
    )
    runs, idle = h.state("", "RUN"), h.state("", "IDLE") | h.state("", "BEGIN") | h.state("", "CHECK")
    h.prove("a command has one end", sum([emitted.left != 0, *finals]) == runs)
    h.prove("nothing is left between commands", ~idle | (h.signal("writer.chunks.left") == 0) & (answers == 0))
    to_give = given.left - place
    h.prove("what is given out is given to the writer", Mux(task.dry, given.left == 0,
            to_give - sum(valid) == emitted.left - h.signal("reader.place")))  # fmt: skip
    whole = _weights().bit_length() - 1
    h.prove("chunks are counted from the end", Cat(
        (left == 0) | ((left - task.count)[:whole] == 0) for left in (emitted.left, given.left)).all())  # fmt: skip
    for stage in range(length):
        rest = Signal(signed(33), name=f"rest{stage}")  # behind this group
        h.m.d.comb += rest.eq(to_give - 1 - sum(valid[stage + 1 :]))
        end = (rest == 0) | ((rest - task.count)[:whole] == 0)
        h.prove(f"stage {stage}: a group of the command", ~valid[stage] | ((rest >= 0) & (lasts[stage] == end)))
        open_ = (emitted.left != 0) | Cat(finals[: stage + 1]).any()
        h.prove(f"stage {stage}: before the end", ~valid[stage] | (open_ & ~task.dry))
        ended = Cat(there & end for there, end in zip(valid[: stage + 1], lasts, strict=False)).any()
        room = h.signal("slots") != 0
        h.prove(f"stage {stage}: its chunk has a slot, or will take one", ~valid[stage] | ended | room)
    h.prove("writer: groups of its chunks", ~writer.valid | ((given.left != 0) & (writer.i.last == last)))
    h.prove("writer: only while there is room", ~writer.valid | (h.signal("writer.ready") != SLOTS))
    nothing = (emitted.left == 0) & (due == 0) & (given.left == 0) & writer.idle
    h.prove("a start finds nothing under way", ~reader.start | nothing)
    h.prove("a start finds addresses of whole beats", ~reader.start | _aligned(reader.addr))
    h.cover("a third chunk is given", dut.busy & given.third(task.count))
    h.cover("something is written", writer.freed)
    h.cover("done", dut.done)
