"""The update unit's place in a command: its chunks, and the walks that ask for their arrays."""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from adagp.rtl.update import chunks, reader, writer
from adagp.rtl.update.arrays import SLOTS, array_bytes
from amaranth import Cat, Mux, Signal, Value

from .registry import CONFIG
from .rules_walks import burst_walk_rule, chunks_rule

__all__ = [
    "BEAT_BITS", "MEMORY", "Place", "aligned", "beats_of", "between", "chunk_place", "momentum_beats", "segments_of",
    "slice_before", "small_chunks", "walk_rule", "weights",
]  # fmt: skip

FEW_WEIGHTS = 8
"""Weights of a small chunk; each of its arrays still fills more than a beat."""
BEAT_BITS = (CONFIG.beat_bytes - 1).bit_length()
MEMORY = ("t:$mem_v2",)
"""Cells to cut: the contents of FIFOs don't matter."""


def weights():
    """Weights in a full chunk of the job that is being bound."""
    return chunks.chunk_weights(CONFIG)


def momentum_beats():
    return weights() * array_bytes(CONFIG)["v"] // CONFIG.beat_bytes


@contextmanager
def small_chunks():
    with ExitStack() as stack:
        for module in (chunks, reader, writer):
            stack.enter_context(patch.object(module, "chunk_weights", lambda config: FEW_WEIGHTS))
        yield


@dataclass(frozen=True)
class Place:
    """A place in the sequence of chunks: weights ``left``, and ``size`` of the present chunk."""

    left: Value
    size: Value

    def third(self, count):
        """1 if two full chunks are done, when ``count`` were there at the start."""
        return (self.size != 0) & (self.left + 2 * weights() < count)


def chunk_place(h, path):
    left = Signal(33, name=f"left_of_{path.replace('.', '_')}")
    h.m.d.comb += left.eq(chunks_rule(h, path, weights(), h.prove))
    return Place(left, Mux(h.block(path).valid, h.block(path).size, 0))


def beats_of(weights, element_bytes):
    """Beats that some weights' elements of an array fill."""
    return (weights * element_bytes + CONFIG.beat_bytes - 1) >> BEAT_BITS


def between(h, name, first: Place, second: Place):
    """Weights that are left to ``second`` but not to ``first``: whole chunks, as many as there is room for."""
    difference, ahead = second.left - first.left, Signal(range(2 * SLOTS * weights()))
    h.m.d.comb += ahead.eq(difference)
    h.prove(f"{name}: at most {SLOTS} chunks", (difference >= 0) & (difference <= SLOTS * weights()))
    h.prove(f"{name}: whole chunks", (first.left == 0) | (ahead % weights() == 0))
    return ahead


def walk_rule(h, path):
    """A walk of segments that begin at a whole beat.

    Returns the beats that it has yet to ask for, with those of the segment in the slice before it.
    """
    left = burst_walk_rule(h, path)
    there = segments_of(h, path)
    for number, (valid, segment) in enumerate(there):
        h.prove(f"{path}: from a whole beat on, {number}", ~valid | (segment.place.dram[:BEAT_BITS] == 0))
    waiting = slice_before(h, path)
    h.prove(f"{path}: what waits begins at a whole beat", ~waiting.valid | (waiting.p.place.dram[:BEAT_BITS] == 0))
    lengths = [(valid, segment.last + 1) for valid, segment in (*there, (waiting.valid, waiting.p))]
    return sum((Mux(valid, beats_of(length, CONFIG.operand_bytes), 0) for valid, length in lengths), start=left)


def segments_of(h, path):
    """The segments that wait for a walk's bursts, the latest first, each as (valid, segment)."""
    skid = h.block(f"{path}.skid")
    spare = skid.o.p.shape()(h.signal(f"{path}.skid.spare"))
    return [(~skid.i.ready, spare), (skid.o.valid, skid.o.p)]


def slice_before(h, path):
    """The input of a walk: from the slice before it, or from the writer, whose walk takes it at once."""
    if path.endswith("walk"):
        given = h.block(path).i
        if (name := f"{path}: what it is given is taken") not in h.names:
            h.prove(name, ~given.valid | given.ready)
        return given
    before = h.block(f"{path.rpartition('.')[0]}.segment".lstrip("."))
    name = f"{path}: the slice before it is free while it gives nothing"
    if name not in h.names:
        h.prove(name, before.i.ready == ~before.o.valid)
    return before.o


def aligned(addr):
    """1 if addresses, one after the other in a value, are multiples of the beat."""
    value = Value.cast(addr)
    return Cat(value[at : at + BEAT_BITS] for at in range(0, len(value), 32)) == 0
