"""Rules for streams, counters and tokens of any block, bound to a harness from outside."""

from adagp.rtl.lib.interfaces import Token
from amaranth import Signal, Value
from amaranth.lib import stream

from .harness import Harness, interfaces

__all__ = ["bind_streams", "bind_tokens", "counter_rule", "fifo_rule", "handshake_rule", "pair_rule", "stream_rule"]


def handshake_rule(h: Harness, name: str, valid, ready, payload, guarantee: bool, unless=0) -> None:
    """A handshake: ``valid`` holds and ``payload`` stands until ``ready``, and nothing is valid right after reset.

    To prove if ``guarantee``, else to assume of the surroundings. After a cycle with ``unless`` an offer may be gone.
    """
    check = h.prove if guarantee else h.assume
    waiting = h.before(valid & ~ready & ~Value.cast(unless).any())
    check(f"{name}: valid holds until ready", ~waiting | valid)
    if len(Value.cast(payload)):
        check(f"{name}: payload stands until ready", ~waiting | (h.before(payload) == Value.cast(payload)))
    check(f"{name}: not valid after reset", ~h.fresh | ~valid)
    if guarantee:
        if isinstance(ready, Signal):
            h.cover(f"{name}: waits", waiting & valid)
        h.cover(f"{name}: moves", valid & ready)


def stream_rule(h: Harness, name: str, port, guarantee: bool, unless=0) -> None:
    """The handshake of a stream; if it is to be proved, also that valid doesn't wait for ready."""
    ready = Value.cast(port.ready)
    handshake_rule(h, name, port.valid, ready, port.payload, guarantee, unless)
    if guarantee and isinstance(port.ready, Signal):
        h.ignores(f"{name}: valid ignores ready", port.valid, port.ready)


def bind_streams(h: Harness, unless: dict | None = None) -> None:
    """:func:`stream_rule` for every stream of the block: outputs to prove, inputs to assume."""
    for path, out, port in interfaces(h.dut, stream.Signature):
        stream_rule(h, path, port, out, (unless or {}).get(path, 0))


def bind_tokens(h: Harness) -> None:
    """Every token port takes only what is there; tokens stay there until taken."""
    for path, out, port in interfaces(h.dut, Token):
        if out:
            left = h.before(port.avail & ~port.take)
            h.assume(f"{path}: a token stays until it is taken", ~left | port.avail)
            h.prove(f"{path}: taken only while available", ~port.take | port.avail)
            h.cover(f"{path}: taken", port.take)


def counter_rule(h: Harness, path: str, maximum: int, reach: int | None = None) -> None:
    """The counter at ``path``, which moves by steps, stays in 0..maximum and never passes from one end to the other.

    It is to be seen to rise, to fall to 0 and to reach ``reach``: ``maximum`` unless told otherwise.
    """
    value, label = h.signal(path), path.replace(".", "_")
    before, seen = Signal.like(value, name=f"before_{label}"), Signal(name=f"seen_{label}")
    h.m.d.sync += [before.eq(value), seen.eq(1)]
    h.prove(f"{path}: at most {maximum}", value <= maximum)
    if maximum > 1:
        ends = ((before == 0) & (value == maximum)) | ((before == maximum) & (value == 0))
        h.prove(f"{path}: doesn't wrap", ~seen | ~ends)
    reach = maximum if reach is None else reach
    h.cover(f"{path}: rises", seen & (value > before))
    h.cover(f"{path}: falls to 0", seen & (before != 0) & (value == 0))
    h.cover(f"{path}: reaches {reach}", value == reach)


def fifo_rule(h: Harness, name: str, fifo, by_stream: bool = False, reach: int | None = None, covers=True) -> None:
    """``fifo`` (of amaranth.lib, or a BlockQueue) holds no more than its depth, and is written only while it has room.

    The latter not ``by_stream``, where ``w_rdy`` is shown to who writes, and being offered more means nothing.
    With ``covers`` it is to be seen to hold ``reach``: its depth unless told otherwise.
    """
    h.prove(f"{name}: at most {fifo.depth}", fifo.level <= fifo.depth)
    if not by_stream:
        h.prove(f"{name}: written only with room", ~fifo.w_en | fifo.w_rdy)
    inner = h.signals(f"{name}.inner_level") or h.signals(f"{name}.stored")
    if not inner:  # a SyncFIFO
        produce, consume = h.signal(f"{name}.produce"), h.signal(f"{name}.consume")
        ahead = consume + fifo.level
        h.prove(
            f"{name}: its level is what lies between its ends", (ahead == produce) | (ahead == produce + fifo.depth)
        )
        h.prove(f"{name}: both ends are places of it", (produce < fifo.depth) & (consume < fifo.depth))
    else:
        h.prove(f"{name}: what it holds comes to its output", (inner[0] < 2) | fifo.r_rdy)
        h.prove(f"{name}: at most {fifo.depth - 1} behind its output", inner[0] < fifo.depth)
    if not covers:
        return
    h.cover(f"{name}: written", fifo.w_en & fifo.w_rdy)
    reach = fifo.depth if reach is None else reach
    h.cover(f"{name}: holds {reach}", fifo.level == reach)
    h.cover(f"{name}: empty again", (fifo.level == 0) & (h.before(fifo.level) != 0))


def pair_rule(h: Harness, path: str) -> None:
    """An item of the pair queue at ``path`` moves from a register that holds it to one that is announced to."""
    queue, moves = h.block(path), h.signal(f"{path}.moves" if path else "moves")
    h.prove(f"{path or 'queue'}: what moves leaves its register for the other", ~moves | (~queue.w_rdy & queue.r_rdy))
