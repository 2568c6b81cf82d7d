"""Where the beats are that the update unit writes: said in full, which makes the rules inductive."""

from adagp.rtl.axi import BEGUN
from adagp.rtl.update_read import SLOTS
from adagp.rtl.update_write import written_arrays
from amaranth import Cat, Mux, Signal

from .registry import CONFIG
from .rules import fifo_rule
from .update_places import (
    BEAT_BITS,
    Place,
    aligned,
    beats_of,
    between,
    chunk_place,
    segments_of,
    slice_before,
    walk_rule,
    weights,
)  # fmt: skip

__all__ = ["answered", "groups_given", "output_stands", "writing_rule"]


def output_stands(h, prefix):
    """Of the writer's FIFOs, whose memories are cut: an output stands until taken, for its read port is off then."""
    for name in written_arrays(CONFIG):
        fifo = h.block(f"{prefix}beats_{name}")
        waits = h.before(fifo.r_rdy & ~fifo.r_en)
        h.assume(f"{prefix}beats_{name}: its output stands", ~waits | (h.before(fifo.r_data) == fifo.r_data))


def answered(h, write):
    """Answers come to bursts begun; returns how many are due."""
    begun = write.request.valid & write.request.ready
    due = h.count(begun, write.answer.valid, 2 * BEGUN - 1)
    h.assume("write.answer: only to bursts begun", ~write.answer.valid | (due != 0))
    h.assume("write.request: as many as the arbiter takes", ~begun | (due < BEGUN))
    return due


def writing_rule(h, prefix, given: Place, place):
    """Where the beats of the writer ``prefix`` are, which was given ``place`` weights of the chunk ``given``."""
    writing = chunk_place(h, f"{prefix}chunks")
    chunk, asking, moving = (h.state(prefix[:-1], state) for state in ("CHUNK", "REQUEST", "BEATS"))
    array, ready, left = (h.signal(prefix + name) for name in ("array", "ready", "left"))
    walk, ahead = h.block(f"{prefix}walk"), slice_before(h, f"{prefix}walk")
    segments = [(valid, segment.last + 1) for valid, segment in segments_of(h, f"{prefix}walk")]
    segments.append((ahead.valid, ahead.p.length))
    request = h.block(f"{prefix}request")
    h.prove(f"{prefix}request: free while it gives nothing", request.i.ready == ~request.o.valid)
    chosen, final = h.signal(f"{prefix}chosen"), h.signal(f"{prefix}final")
    h.prove(f"{prefix}chosen: the array whose beats are given", chosen == Mux(moving, 1 << array, 0))
    h.prove(f"{prefix}final: whether no beat is behind this one", ~moving | (final == (left == 0)))
    waits_to_walk = Cat(valid for valid, _ in segments)
    walking = waits_to_walk.any()
    h.prove(f"{prefix}walk: never two segments", (waits_to_walk & (waits_to_walk.as_unsigned() - 1)) == 0)
    complete = between(h, f"{prefix}given, not written", given, writing)
    behind = Signal.like(complete)
    h.m.d.comb += behind.eq(complete - writing.size)
    sizes = written_arrays(CONFIG)
    h.prove(f"{prefix}ready: the chunks that are complete", ready == (complete + weights() - 1) // weights())
    h.prove(f"{prefix}array: one of them", array < len(sizes))
    h.prove(f"{prefix}what is written is complete", (chunk & (array == 0)) | (ready != 0))
    h.prove(f"{prefix}place: in the chunk", (place < given.size) | ((place == 0) & (given.left == 0)))
    h.prove(f"{prefix}place: with room", (place == 0) | (ready != SLOTS))
    h.prove(f"{prefix}addr: whole beats", aligned(h.signal(f"{prefix}addr")))
    h.prove(f"{prefix}walk: one segment at a time", ~walking | (asking & ~walk.o.valid))
    h.prove(f"{prefix}walk: idle between arrays", ~chunk | walk.idle)
    walked = walk_rule(h, f"{prefix}walk") + Mux(moving, left + 1, 0)
    for k, (name, bytes_) in enumerate(sizes.items()):
        fifo, pack = h.block(f"{prefix}beats_{name}"), h.block(f"{prefix}pack_{name}")
        groups = CONFIG.beat_bytes // bytes_ // CONFIG.update_lanes
        share = beats_of(writing.size, bytes_)
        rest = Mux(chunk, share, walked)  # of this array, while its turn is
        h.prove(f"{prefix}{name}: no more is left of it than its share", (array != k) | chunk | (walked <= share))
        held = Mux(array > k, 0, Mux(array == k, rest, share))
        begun = (place * bytes_) >> BEAT_BITS
        h.prove(f"{prefix}{name}: place in the beat", h.signal(f"{prefix}pack_{name}.place") == place % groups)
        h.prove(f"{prefix}{name}: what is given and not written is held", fifo.level + pack.o_valid
                == Mux(ready == 0, 0, beats_of(behind, bytes_) + held) + begun)  # fmt: skip
        early = chunk & (array == 0)
        only = (begun == 0) & (ready != 0) & (behind == 0)
        h.prove(f"{prefix}{name}: a chunk's last beat comes before its turn", ~(pack.o_valid & only) | early)
        waits = (ready != 0) & ((array < k) | ((array == k) & (rest != 0)))
        h.prove(f"{prefix}{name}: a beat is there", ~waits | fifo.r_rdy | early | ((array == 0) & walking))
        fifo_rule(h, f"{prefix}beats_{name}", fifo, covers=not prefix)
    h.prove(f"{prefix}walk: the array's share of the chunk", ~walking | (
        sum(Mux(valid, length, 0) for valid, length in segments)
        == sum(Mux(array == k, writing.size * (bytes_ // CONFIG.operand_bytes), 0)
               for k, bytes_ in enumerate(sizes.values()))))  # fmt: skip
    there = Cat(h.block(f"{prefix}beats_{name}").r_rdy for name in sizes)
    h.prove(f"{prefix}beats: given without a pause", ~moving | (chosen & there).any())
    return writing


def groups_given(h, writer, count):
    """Counts off what a writer is given, as the reader does: the chunk, its weights so far, whether this is its end."""
    left, place = Signal(32, name="given_left"), Signal(range(weights()), name="given_place")
    given = Place(left, Mux(left < weights(), left, weights()))
    last = given.size - place <= CONFIG.update_lanes
    with h.m.If(writer.start):
        h.m.d.sync += left.eq(count)
    with h.m.If(writer.valid):
        h.m.d.sync += place.eq(Mux(last, 0, place + CONFIG.update_lanes))
        with h.m.If(last):
            h.m.d.sync += left.eq(left - given.size)
    return given, place, last
