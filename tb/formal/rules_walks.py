"""Invariants of the blocks that walk and queue, which make rules of the blocks around them inductive.

Each takes the path of such a block, "" for the harness's own.
"""

from collections.abc import Callable

from amaranth import Mux, Signal, Value

from .harness import Harness
from .registry import CONFIG

__all__ = [
    "beat_walk_rule", "burst_walk_rule", "chunks_rule", "levels_of", "odometer_rule", "room_rule", "segments_rule",
    "skid_rule", "slice_rule", "stood_rule", "unpack_rule",
]  # fmt: skip

BEAT_BITS = (CONFIG.beat_bytes - 1).bit_length()


def _inside(path: str) -> str:
    return f"{path}." if path else ""


def levels_of(h: Harness, path: str) -> range:
    """The loops that :class:`.bursts.Segments` at ``path`` walks."""
    return range(sum(f"n{level}" in h.block(path).i.p.shape().members for level in range(3)))


def skid_rule(h: Harness, path: str, meant: Callable | None = None) -> None:
    """The skid at ``path`` has a second item only after a first one; both satisfy ``meant``, if given."""
    skid, spare = h.block(path), h.signal(f"{_inside(path)}spare")
    h.prove(f"{path}: the second item is behind a first", skid.i.ready | skid.o.valid)
    if meant is not None:
        layout = skid.o.p.shape()
        h.prove(f"{path}: as its items are", ~skid.o.valid | meant(skid.o.p))
        h.prove(f"{path}: as its second item is", skid.i.ready | meant(layout(spare)))


def slice_rule(h: Harness, path: str) -> None:
    """The register slice at ``path`` is free while it gives nothing."""
    item = h.block(path)
    h.prove(f"{path}: free while it gives nothing", item.i.ready == ~item.o.valid)


def room_rule(h: Harness, path: str, in_pipeline, meant: Callable | None = None) -> list:
    """The queue at ``path`` has room for all items ``in_pipeline``; all that it holds satisfy ``meant``, if given.

    Returns its items, the oldest first: whether each is there, and its bits.
    """
    inside, queue = _inside(path), h.block(path)
    used, level, several, gone, first, last = (
        h.signal(inside + name) for name in ("used", "level", "several", "gone", "first", "last")
    )
    h.prove(f"{inside}used: by what is on its way, in the queue or just gone", used == in_pipeline + level + gone)
    h.prove(f"{inside}used: at most {queue.depth}", used <= queue.depth)
    h.prove(f"{inside}may: there is room for one that begins", ~queue.may | (used < queue.depth))
    h.prove(f"{inside}level: what lies between the ends", (last - first - level)[: len(first)] == 0)
    h.prove(f"{inside}o: given while there is an item", queue.o.valid == (level != 0))
    h.prove(f"{inside}several: whether there are two or more", several == (level > 1))
    if meant is not None:
        for place in range(queue.depth):
            word = queue.o.p.shape()(h.word(f"{inside}memory", place))
            h.prove(f"{inside}memory: word {place} is as items are", meant(word))
    places = [(first + place)[: len(first)] for place in range(queue.depth)]
    return [(level > place, h.word(f"{inside}memory", at)) for place, at in enumerate(places)]


def segments_rule(h: Harness, path: str) -> None:
    """The registered flags of :class:`.bursts.Segments` agree with its counters."""
    inside, valid = _inside(path), h.block(path).o.valid
    several, double, more, nearly, steps, anew, turning = (
        h.signal(f"{inside}{name}") for name in ("several", "double", "more", "nearly", "steps", "anew", "turning")
    )
    for level in levels_of(h, path):
        left, turns = h.signal(f"{inside}left{level}"), h.signal(f"{inside}turns{level}")
        h.prove(f"{inside}left{level}: never more than the turns", ~valid | (left <= turns))
        h.prove(f"{inside}left{level}: the present turn counts", ~valid | (left != 0))
        h.prove(f"{inside}more: whether another turn is left of level {level}", ~valid | (more[level] == (left != 1)))
        h.prove(f"{inside}several: whether level {level} has more than one", ~valid | (several[level] == (turns != 1)))
        h.prove(f"{inside}nearly: whether just one is left of level {level}", ~valid | (nearly[level] == (left == 2)))
        h.prove(f"{inside}double: whether level {level} has two", ~valid | (double[level] == (turns == 2)))
        h.prove(f"{inside}steps: whether level {level} is the innermost with another turn",
                ~valid | (steps[level] == (more[level] & ~more[level + 1 :].any())))  # fmt: skip
        h.prove(f"{inside}anew: whether a level outside {level} steps", ~valid | (anew[level] == steps[:level].any()))
        h.prove(f"{inside}turning: whether level {level} steps or begins anew",
                ~valid | (turning[level] == (anew[level] | steps[level])))  # fmt: skip


def burst_walk_rule(h: Harness, path: str) -> Value:
    """The last-burst flag of a :class:`.bursts.Bursts` is right; returns the beats left of the segment."""
    inside, valid = _inside(path), h.block(path).o.valid
    skid_rule(h, f"{inside}skid")
    left, end, final = (h.signal(inside + name) for name in ("left", "end", "final"))
    place = h.signal(f"{inside}first")[BEAT_BITS:][: len(end)]
    h.prove(f"{inside}final: whether no block is left behind", ~valid | (final == (left == 0)))
    h.prove(f"{inside}end: not before the burst", ~(valid & final) | (end >= place))
    return Mux(valid, (left << len(end)) + end + 1 - place, 0)


def beat_walk_rule(h: Harness, path: str) -> None:
    """The last-beat flag of a :class:`.bursts.Beats` is right."""
    inside, valid = _inside(path), h.block(path).o.valid
    skid_rule(h, f"{inside}skid")
    left, end, final = (h.signal(inside + name) for name in ("left", "end", "final"))
    _base, first = h.signals(f"{inside}$signal")
    h.prove(f"{inside}end: there is an operand for each beat", ~(valid & final) | (end >= first))
    h.prove(f"{inside}final: whether no beat is left behind", ~valid | (final == (left == 0)))


def stood_rule(h: Harness, path: str, check: Callable) -> None:
    """The start values of an :class:`.odometer.Odometer` are there a cycle before; checked by ``check``."""
    odometer = h.block(path)
    n = odometer.n.as_value()
    check(f"{_inside(path)}n: has stood for a cycle at a start", ~odometer.start | (h.before(n) == n))


def odometer_rule(h: Harness, path: str, check: Callable, stood: Callable | None = None) -> Signal:
    """The :class:`.odometer.Odometer`'s flags; by ``check`` (assume or prove), it steps only after a start.

    ``stood`` checks :func:`stood_rule`, else ``check`` does. Returns a bit that is 1 after the first start.
    """
    inside, odometer = _inside(path), h.block(path)
    begun = Signal(name=f"begun_{len(h.names)}")
    h.m.d.sync += begun.eq(begun | odometer.start)
    check(f"{inside}step: only after a start", ~odometer.step | begun)
    stood_rule(h, path, stood or check)
    single, double, spent, nearly, turns, counts = (
        h.signal(inside + name) for name in ("single", "double", "spent", "nearly", "turns", "counts"))  # fmt: skip
    h.prove(f"{inside}last: whether all levels are spent", ~begun | (odometer.last == spent.all()))
    for level in range(odometer.levels):
        counters = (h.signal(f"{inside}{counter}{level}") for counter in ("left", "span"))
        left, span = ((counter - 1)[: len(counter)] for counter in counters)  # after the present turn
        h.prove(f"{inside}left{level}: at most what it starts with", left <= span)
        h.prove(f"{inside}spent: whether nothing is left of level {level}", ~begun | (spent[level] == (left == 0)))
        h.prove(f"{inside}single: whether level {level} has but one", ~begun | (single[level] == (span == 0)))
        h.prove(f"{inside}nearly: whether 1 is left of level {level}", ~begun | (nearly[level] == (left == 1)))
        h.prove(f"{inside}double: whether level {level} has two", ~begun | (double[level] == (span == 1)))
        h.prove(f"{inside}turns: whether all behind level {level} are spent",
                ~begun | (turns[level] == spent[level + 1 :].all()))  # fmt: skip
        h.prove(f"{inside}counts: whether level {level} is the innermost that isn't spent",
                ~begun | (counts[level] == ~spent[level] & spent[level + 1 :].all()))  # fmt: skip
    return begun


def unpack_rule(h: Harness, path: str) -> Value:
    """An :class:`.gearbox.Unpack`'s flag; returns the groups left in it, the present one included."""
    inside, valid = _inside(path), h.block(path).o.valid
    left, last = h.signal(f"{inside}left"), h.signal(f"{inside}last")
    h.prove(f"{inside}last: whether no group is left behind", ~valid | (last == (left == 0)))
    return Mux(valid, left + 1, 0)


def chunks_rule(h: Harness, path: str, weights: int, check: Callable) -> Value:
    """Chunks of ``weights`` weights: their flags; returns the weights left, those of the present chunk included.

    By ``check`` (assume or prove), a step comes only while there is a chunk, and not right after another step.
    """
    inside, chunks = _inside(path), h.block(path)
    counter, rest, stepped = (h.signal(inside + name) for name in ("left", "rest", "stepped"))
    left = (counter - stepped)[: len(counter)]
    some, short, double = (h.signal(inside + name) for name in ("some", "short", "double"))
    two = (chunks.count > weights) & (chunks.count <= 2 * weights)
    known = (some == (chunks.count != 0)) & (~some | ((short == (chunks.count <= weights)) & (double == two)))
    h.prove(f"{inside}load: whether there is a weight, and one chunk, is known", ~chunks.load | known)
    h.prove(f"{inside}rest_end: the rest less one", ~chunks.valid | (chunks.rest_end + 1 == rest))
    check(f"{inside}step: only while there is a chunk", ~chunks.step | chunks.valid)
    h.prove(f"{inside}last: whether no whole chunk is left behind", ~chunks.valid | (chunks.last == (left == 0)))
    check(f"{inside}step: not in two cycles one after the other", ~(chunks.step & stepped))
    h.prove(f"{inside}stepped: counted if it wasn't the last", ~(chunks.valid & stepped) | (counter != 0))
    nearly = h.signal(f"{inside}nearly")
    h.prove(f"{inside}nearly: whether one is left behind", ~chunks.valid | stepped | (nearly == (left == 1)))
    h.prove(f"{inside}rest: what a chunk may have", ~chunks.valid | ((rest != 0) & (rest <= weights)))
    return Mux(chunks.valid, left * weights + rest, 0)
