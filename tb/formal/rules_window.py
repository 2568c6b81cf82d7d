"""Rules for the predictor memory's window, in either direction: addresses, order by id, bursts in a queue."""

from collections import namedtuple
from dataclasses import replace

from adagp.rtl.memory.axi import OUTSTANDING
from adagp.rtl.memory.predictor_window import PAGE
from amaranth import Cat, Signal

from .registry import CONFIG
from .rules import handshake_rule

__all__ = [
    "ADDRESS",
    "N_IDS",
    "ON_CHIP",
    "address_rule",
    "followed",
    "in_page",
    "members",
    "queued",
    "sides_rule",
    "window_word",
]

ON_CHIP = replace(CONFIG, variant="max")
N_IDS = 4
NUMBERS = range(4 * OUTSTANDING)
"""Numbers of bursts, modulo: more than may be under way."""
PAGE_WORDS = PAGE // ON_CHIP.beat_bytes
ADDRESS = ("id", "addr", "len", "size", "burst", "cache", "prot")

Burst = namedtuple("Burst", "known ahead word length id inside")
"""One arbitrary burst: whether it is in the queue or behind it, how many are before it, and what it is."""


def members(axi, prefix, names):
    return Cat(getattr(axi, prefix + name) for name in names)


def window_word(axi, prefix):
    """The word of the window at the channel's address; the window starts at a multiple of its size."""
    beat = (ON_CHIP.beat_bytes - 1).bit_length()
    bits = (ON_CHIP.predictor_bytes // ON_CHIP.beat_bytes - 1).bit_length()
    return getattr(axi, f"{prefix}addr")[beat : beat + bits]


def address_rule(h, prefix, axi, port, inside):
    """The channel of addresses: those of the port pass as they are; those of the window don't reach it."""
    valid, ready = getattr(axi, f"{prefix}valid"), getattr(axi, f"{prefix}ready")
    out_valid, out_ready = getattr(port, f"{prefix}valid"), getattr(port, f"{prefix}ready")
    given = Cat(members(axi, prefix, ADDRESS), inside)
    handshake_rule(h, f"i: {prefix}", valid, ready, given, guarantee=False)
    handshake_rule(h, f"o: {prefix}", out_valid, out_ready, members(port, prefix, ADDRESS), guarantee=True)
    h.ignores(f"o: {prefix}: valid ignores ready", out_valid, out_ready)
    h.prove(f"{prefix}: what is for the port is taken by it", (out_valid & out_ready) == (valid & ready & ~inside))
    h.cover(f"{prefix}: one for the window is taken", valid & ready & inside)
    return valid & ready


def sides_rule(h, prefix, answer, axi, port, taken, inside, end_port, end_window):
    """The bursts under way of each id at both sides: never at both, so that answers come in order."""
    ident, answer_id = getattr(axi, f"{prefix}id"), getattr(axi, f"{answer}id")
    counts, total = {True: [], False: []}, 0
    for number in range(N_IDS):
        for here, end in ((True, end_window), (False, end_port)):
            up, down = taken & (inside == here) & (ident == number), end & (answer_id == number)
            counts[here].append(h.count(up, down, 2 * OUTSTANDING - 1))
        window, at_port = counts[True][-1], counts[False][-1]
        count, none, side = (h.signal(f"{prefix}_sides.{name}{number}") for name in ("count", "none", "side"))
        h.prove(f"id {number}: at one side only", (window == 0) | (at_port == 0))
        h.prove(f"id {number}: all are counted", count == window + at_port)
        h.prove(f"id {number}: whether there are none", none == (count == 0))
        h.prove(f"id {number}: at the side that is noted", (count == 0) | (side == (window != 0)))
        h.cover(f"id {number}: waits for its bursts at the other side",
                getattr(axi, f"{prefix}valid") & (ident == number) & ~h.block(f"{prefix}_sides").go)  # fmt: skip
        total = total + count
    valid = getattr(axi, f"{prefix}valid")
    # The arbiters' jobs prove it of the master, with the offered one; it holds of all others alike.
    h.assume(f"{prefix}: at most {OUTSTANDING} bursts under way", total + valid <= OUTSTANDING)
    for side, owing, rule in (
        (port, counts[False], h.assume),
        (axi, map(sum, zip(*counts.values(), strict=True)), h.prove),
    ):
        valid, of = getattr(side, f"{answer}valid"), getattr(side, f"{answer}id")
        name = "o" if side is port else "i"
        rule(f"{name}: {answer}: only to bursts under way",
             ~valid | Cat(count != 0 for count in owing).bit_select(of, 1))  # fmt: skip
    return counts


def followed(h, entered, left, burst):
    """One arbitrary burst is followed, from its entry into the queue to its last beat."""
    chosen, known = h.constant(NUMBERS), Signal(name="known")
    came, gone = Signal(NUMBERS, name="came"), Signal(NUMBERS, name="gone")
    kept = {name: Signal(len(value), name=f"kept_{name}") for name, value in burst.items()}
    h.m.d.sync += [came.eq(came + entered), gone.eq(gone + left)]
    with h.m.If(entered & (came == chosen)):
        h.m.d.sync += [known.eq(1), *(kept[name].eq(value) for name, value in burst.items())]
    with h.m.Elif(left & (gone == chosen)):
        h.m.d.sync += known.eq(0)
    ahead, waiting = (chosen - gone)[: len(gone)], (came - gone)[: len(gone)]
    h.prove("the burst that is followed is there", ~known | (ahead < waiting))
    return Burst(known, ahead, *(kept.get(name, 0) for name in ("word", "length", "id", "inside"))), waiting


def queued(h, path, place):
    """A queue's entry at a place, counted from its front."""
    consume = h.signal(f"{path}.consume")
    return h.word(f"{path}.storage", (consume + place)[: len(consume)])


def in_page(word, beats):
    """The word so many beats behind another one, where bursts stay in a page."""
    bits = PAGE_WORDS.bit_length() - 1
    return Cat((word[:bits] + beats)[:bits], word[bits:])
