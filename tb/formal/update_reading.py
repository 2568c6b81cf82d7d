"""The places of the beats that the update unit reads, in full, which makes the rules inductive."""

from adagp.rtl.update.arrays import SLOTS, array_bytes
from amaranth import Mux, Signal

from .registry import CONFIG
from .rules import fifo_rule
from .rules_walks import skid_rule, unpack_rule
from .update_places import aligned, beats_of, between, chunk_place, walk_rule, weights

__all__ = ["beats_due", "reading_rule", "waiting_groups"]

IN_SKIDS = 4
"""Groups that the reader's two skids hold while its output waits."""
UNDER_WAY_BITS = 12
"""Bits of the number of beats asked for that haven't come: two chunks' at most."""


def beats_due(h, read):
    """Beats come only for bursts asked for; returns their number."""
    due = Signal(UNDER_WAY_BITS)
    asked = read.request.valid & read.request.ready
    h.m.d.sync += due.eq(due + (read.request.p.length + 1) * asked - (read.beats.valid & read.beats.ready))
    h.assume("read.beats: only those asked for", ~read.beats.valid | (due != 0))
    return due


def waiting_groups(h, prefix):
    """The groups of the reader ``prefix`` that wait to be taken, the latest first, each with a valid bit."""
    skid = h.block(f"{prefix}skid")
    spare = skid.o.p.shape()(h.signal(f"{prefix}skid.spare"))
    return [(~skid.i.ready, spare), (skid.o.valid, skid.o.p)]


def place_given(h, prefix, emitted):
    """Weights of the chunk ``emitted`` that the reader ``prefix`` has given out."""
    left, begun = h.signal(f"{prefix}left"), h.signal(f"{prefix}begun")
    h.prove(f"{prefix}left: weights of the chunk", ~begun | ((left != 0) & (left <= emitted.size)))
    return Mux(begun, emitted.size - left, 0)


def reading_rule(h, prefix, due):
    """Places of the beats of the reader ``prefix``, ``due`` of them still to come; returns the chunk it gives out."""
    sizes = array_bytes(CONFIG)
    requested, received, emitted = (chunk_place(h, prefix + name) for name in ("requested", "received", "emitted"))
    asking, coming = h.signals(f"{prefix}array")
    number, first, final, slots = (h.signal(prefix + name) for name in ("number", "first", "final", "slots"))
    beat, place = number - 1, place_given(h, prefix, emitted)
    # A beat, in the register after the port; arrays of one at the end; the flush of the arrays' groups.
    arrived, single, _flush = h.signals(f"{prefix}stage")
    in_use = between(h, f"{prefix}requested, not given out", requested, emitted)
    landed = between(h, f"{prefix}received, not given out", received, emitted)
    between(h, f"{prefix}requested, not received", requested, received)
    groups_waiting = waiting_groups(h, prefix)
    skid_rule(h, f"{prefix}skid")
    ended = sum(valid & group.last for valid, group in groups_waiting)  # chunks whose end waits to be taken
    h.prove(f"{prefix}slots: those in use are requested",
            slots + ((in_use + weights() - 1) // weights()) + ended == SLOTS)  # fmt: skip
    h.prove(f"{prefix}a chunk is asked for with room", (asking == 0) | ((slots != 0) & (requested.left != 0)))
    h.prove(f"{prefix}a chunk comes if one is left", ((coming == 0) & (beat == 0)) | (received.left != 0))
    h.prove(f"{prefix}place: in the chunk", (place < emitted.size) | ((place == 0) & (emitted.left == 0)))
    h.prove(f"{prefix}addr: whole beats", aligned(h.signal(f"{prefix}addr")))

    def before(array, size):
        """Beats of a chunk that belong to the arrays before ``array``."""
        return sum(Mux(array > k, beats_of(size, bytes_), 0) for k, bytes_ in enumerate(sizes.values()))

    full, size_bits = sum(beats_of(weights(), bytes_) for bytes_ in sizes.values()), weights().bit_length() - 1

    def of_all(weights):
        """Beats that so many weights fill in all arrays, chunk by chunk."""
        rest = sum(beats_of(weights[:size_bits], bytes_) for bytes_ in sizes.values())
        return weights[size_bits : size_bits + UNDER_WAY_BITS] * full + rest

    # Beats of the command that aren't asked for yet, and that haven't come; both modulo the most ever under way.
    to_ask, to_come = (Signal(UNDER_WAY_BITS, name=name) for name in ("to_ask", "to_come"))
    asks, reader, beats = h.block(f"{prefix}segment").i, h.block(prefix[:-1]), h.block(prefix[:-1]).read.beats
    h.prove(f"{prefix}a beat is taken a cycle after it comes", arrived == h.before(beats.valid & beats.ready))
    asked = Mux(asks.valid & asks.ready, beats_of(asks.p.last + 1, CONFIG.operand_bytes), 0)
    h.m.d.sync += to_ask.eq(to_ask - asked)
    h.m.d.sync += to_come.eq(to_come - arrived)
    with h.m.If(reader.start):
        h.m.d.sync += [to_ask.eq(of_all(reader.count)), to_come.eq(of_all(reader.count))]
    not_asked = of_all(requested.left) - before(asking, requested.size)
    not_come = of_all(received.left) - before(coming, received.size) - beat
    h.prove(f"{prefix}beats to be asked for", to_ask == not_asked[:UNDER_WAY_BITS])
    h.prove(f"{prefix}beats to come", to_come == not_come[:UNDER_WAY_BITS])
    under_way = (to_come - to_ask)[:UNDER_WAY_BITS]
    h.prove(f"{prefix}beats under way: at most {SLOTS} chunks", under_way <= SLOTS * full)
    # Beats of the walk are counted too, so that no proof has both the walk's sums and the chunks'. The first rule is
    # about the walk; the second one holds by the counting, and ties the walk to the chunks.
    walked, request = Signal(UNDER_WAY_BITS, name="walked"), reader.read.request
    h.m.d.sync += walked.eq(walked + asked - Mux(request.valid & request.ready, request.p.length + 1, 0))
    h.prove(f"{prefix}bursts: beats that it has yet to ask for", walked == walk_rule(h, f"{prefix}bursts"))
    h.prove(f"{prefix}beats due are those asked for", due + arrived + walked == under_way)
    begins = h.before(reader.start)
    h.prove(f"{prefix}no beat comes with a start", ~begins | ~arrived)
    h.prove(f"{prefix}number: counted from 1", number != 0)
    h.prove(f"{prefix}first: whether none of the array has come", first == (beat == 0))
    unpacked, flush = h.block(f"{prefix}groups"), h.block(f"{prefix}unpack_g").flush
    skid_rule(h, f"{prefix}groups")
    h.prove(f"{prefix}flush: while no chunk is counted", ~flush | ~h.signal(f"{prefix}begun"))
    for k, (name, bytes_) in enumerate(sizes.items()):
        fifo = h.block(f"{prefix}beats_{name}")
        held = unpack_rule(h, f"{prefix}unpack_{name}") + unpacked.o.valid + ~unpacked.i.ready
        left = Mux(flush, 0, held)  # except groups dropped in this cycle
        gone = h.signal(f"{prefix}gone_{name}")  # the first beat of the FIFO has been taken
        groups = CONFIG.beat_bytes // bytes_ // CONFIG.update_lanes
        whole = beats_of(received.size, bytes_)
        h.prove(f"{prefix}{name}: beats of its share", (coming != k) | (beat == 0) | (beat < whole))
        ends = beats_of(h.block(f"{prefix}received").rest_end + 1, bytes_)
        h.prove(f"{prefix}{name}: whether the last chunk has but one beat of it",
                ~h.block(f"{prefix}received").valid | begins | (single[k] == (ends == 1)))  # fmt: skip
        h.prove(f"{prefix}{name}: whether the next is its last", (coming != k) | first | (final == (number == whole)))
        h.prove(f"{prefix}{name}: whole beats are taken", (place + left) % groups == 0)
        h.prove(f"{prefix}{name}: a beat that is taken is still there", ~gone | fifo.r_rdy)
        h.prove(f"{prefix}{name}: what came and isn't taken is held", fifo.level - gone + (place + left) // groups
                == beats_of(landed, bytes_) + Mux(coming == k, beat, Mux(coming > k, whole, 0)))  # fmt: skip
        # One beat is always taken at once. Of the later arrays, groups leave before the second chunk's beats come. In
        # the whole unit full FIFOs are too far from reset to be searched.
        reach = fifo.depth - 1 - (IN_SKIDS // groups if k else 0)
        fifo_rule(h, f"{prefix}beats_{name}", fifo, reach=reach, covers=not prefix)
    return emitted
