"""The places of the beats that the update unit writes, in full, which makes the rules inductive."""

from dataclasses import dataclass

from adagp.rtl.memory.axi import BEGUN
from adagp.rtl.update.arrays import SLOTS, GroupLayout
from adagp.rtl.update.writer import written_arrays
from amaranth import Cat, Const, Mux, Signal, Value, signed

from .registry import CONFIG
from .rules import fifo_rule
from .rules_walks import skid_rule, slice_rule
from .update_places import (  # fmt: skip
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
)

__all__ = ["answered", "groups_given", "output_stands", "writing_rule"]


def output_stands(h, prefix):
    """An output of the writer's FIFOs, whose memories are cut, stands until taken: its read port is off then."""
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


def writing_rule(h, prefix, inside):
    """The places of the beats of the writer ``prefix``, whose input :func:`groups_given` describes."""
    given, place = inside.chunk, inside.place
    writing = chunk_place(h, f"{prefix}chunks")
    states = ("CHUNK", "REQUEST", "BEATS", "ARRAY")
    chunk, asking, moving, ended = (h.state(prefix[:-1], state) for state in states)
    array, ready, left = (h.signal(prefix + name) for name in ("array", "ready", "left"))
    walk, ahead = h.block(f"{prefix}walk"), slice_before(h, f"{prefix}walk")
    segments = [(valid, segment.last + 1) for valid, segment in segments_of(h, f"{prefix}walk")]
    segments.append((ahead.valid, ahead.p.last + 1))
    slice_rule(h, f"{prefix}request")
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
    h.prove(f"{prefix}walk: idle between arrays", ~(chunk | ended) | walk.idle)
    h.prove(f"{prefix}walk: asked only while it has bursts", ~asking | walking | walk.o.valid)
    chooses = h.signal(f"{prefix}chooses")
    h.prove(f"{prefix}array: has stood while beats are given", ~(moving | asking) | (chooses == array))
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
    delivering_rule(h, prefix, moving, left)
    return writing


def delivering_rule(h, prefix, moving, left):
    """At the port: only beats of requested bursts, and without a pause from the second cycle after the request.

    A burst's beats may be offered before its request is taken, but not before it is offered.
    """
    write, request, skid = h.block(prefix[:-1]).write, h.block(f"{prefix}request").o, h.block(f"{prefix}skid")
    asked, moved = write.request.valid & write.request.ready, write.beats.valid & write.beats.ready
    owed = Signal(signed(10), name="owed")  # beats of requests that were taken; less than 0: those of one that waits
    h.m.d.sync += owed.eq(owed + (write.request.p.length + 1) * asked - moved)
    skid_rule(h, f"{prefix}skid")
    waiting = skid.i.valid + skid.o.valid + ~skid.i.ready  # beats that were given
    to_give = Mux(moving, left + 1, 0)
    ahead = h.block(f"{prefix}request").i
    requested = h.before(ahead.valid & ahead.ready)
    h.prove(f"{prefix}write.beats: those of the bursts that were requested",
            owed + Mux(request.valid, request.p.length + 1, 0) == to_give + waiting)  # fmt: skip
    h.prove(f"{prefix}write.request: of the burst whose beats are given",
            ~(request.valid & moving) | (left <= request.p.length))  # fmt: skip
    h.prove(f"{prefix}write.request: waits before the first beat is given",
            ~requested | (request.valid & moving & (left == request.p.length)))  # fmt: skip
    h.prove(f"{prefix}write.beats: given from the cycle after the request", ~moving | requested | skid.i.valid)
    h.prove(f"{prefix}write.beats: in the skid from the cycle after",
            ~skid.i.valid | skid.o.valid | h.before(requested))  # fmt: skip
    h.prove(
        f"{prefix}write.beats: not before their burst is requested", ~write.beats.valid | request.valid | (owed > 0)
    )
    h.prove(f"{prefix}write.beats: delivered without a pause",
            (owed <= 0) | write.beats.valid | h.before(asked))  # fmt: skip


@dataclass(frozen=True)
class Given:
    """A writer's input: the chunk, its weights so far, and a flag for a next group that ends it; ``on`` moves it.

    The group given last waits in a register; ``ending`` is 1 if it ends a chunk.
    """

    chunk: Place
    place: Value
    ending: Value

    @property
    def last(self):
        return self.chunk.size - self.place <= CONFIG.update_lanes

    def on(self, there, ending):
        """This, a group later if one is ``there``."""
        left = self.chunk.left - Mux(there & self.last, self.chunk.size, 0)
        place = Mux(there, Mux(self.last, 0, self.place + CONFIG.update_lanes), self.place)
        return Given(_chunk_of(left[:32]), place, there & ending)


def _chunk_of(left):
    return Place(left, Mux(left < weights(), left, weights()))


def groups_given(h, prefix, count):
    """Count the groups that the writer ``prefix`` is given, as the reader counts; without and with its register's."""
    writer = h.block(prefix[:-1])
    left, place = Signal(32, name="given_left"), Signal(range(weights()), name="given_place")
    inside, there = Given(_chunk_of(left), place, Const(0)), h.signals(f"{prefix}stage")[0]
    ending = GroupLayout(CONFIG)(h.signal(f"{prefix}group")).last
    given = inside.on(there, ending)
    h.m.d.sync += [left.eq(given.chunk.left), place.eq(given.place)]
    with h.m.If(writer.start):
        h.m.d.sync += left.eq(count)
    h.prove(f"{prefix}group: of the command, and its chunk's end",
            ~there | ((left != 0) & (ending == inside.last) & (h.signal(f"{prefix}ready") != SLOTS)))  # fmt: skip
    return inside, given
