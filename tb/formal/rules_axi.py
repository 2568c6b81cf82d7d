"""AXI rules for the channels of a master and of a register slave."""

from dataclasses import dataclass

from adagp.rtl.control.csr import Csr
from amaranth import Cat, Module, Mux, Signal, Value

from .harness import Harness
from .rules import handshake_rule

__all__ = [
    "AXI_LITE_READ_CYCLES",
    "AXI_LITE_WRITE_CYCLES",
    "Followed",
    "bind_axi_lite",
    "bind_axi_read",
    "bind_axi_write",
]

PAGE = 4096
INCR = 1
AXI_LITE_READ_CYCLES = 3 + Csr.LOOK_CYCLES
AXI_LITE_WRITE_CYCLES = 5
"""Cycles within which the slave answers a request that it has accepted, while its answer channel is free."""


@dataclass(frozen=True)
class Followed:
    """The beats of a master's write channel, and one burst that is followed through it.

    ``announced``: bursts whose last beat is still to come.
    ``beat``: number of beats taken of the first of these.
    ``length``: beats - 1 of the followed burst.
    ``ahead``: bursts before the followed one; it counts only while less than ``announced``.
    """

    announced: Value
    beat: Value
    length: Value
    ahead: Value


def _members(axi, prefix, *names):
    return Cat(getattr(axi, prefix + name) for name in names)


def _address_channel(h, axi, prefix, config):
    """AR or AW: handshake, form of the bursts, pages."""
    addr, length = getattr(axi, prefix + "addr"), getattr(axi, prefix + "len")
    valid = getattr(axi, prefix + "valid")
    beat_bits = (config.beat_bytes - 1).bit_length()
    payload = _members(axi, prefix, "id", "addr", "len", "size", "burst", "cache", "prot")
    handshake_rule(h, prefix, valid, getattr(axi, prefix + "ready"), payload, guarantee=True)
    h.ignores(f"{prefix}: valid ignores ready", valid, getattr(axi, prefix + "ready"))
    form = (getattr(axi, prefix + "burst") == INCR) & (getattr(axi, prefix + "size") == beat_bits)
    h.prove(f"{prefix}: INCR bursts of whole beats", ~valid | form)
    h.prove(f"{prefix}: aligned to the beat", ~valid | (addr[:beat_bits] == 0))
    h.prove(f"{prefix}: within a page", ~valid | (addr[:12] + ((length + 1) << beat_bits) <= PAGE))
    h.prove(f"{prefix}: at most {config.max_burst_beats} beats", ~valid | (length < config.max_burst_beats))
    h.cover(f"{prefix}: a burst up to the end of a page", valid & (addr[:12] + ((length + 1) << beat_bits) == PAGE))
    h.cover(f"{prefix}: a burst of {config.max_burst_beats} beats", valid & (length == config.max_burst_beats - 1))


def _under_way(h: Harness, axi, address: str, answer: str, asked, ended, outstanding: int, n_ids: int) -> list:
    """Bursts of each id from ``asked`` to ``ended``; proves the ids of addresses, assumes those of answers."""
    address_id, answer_id = getattr(axi, f"{address}id"), getattr(axi, f"{answer}id")
    answered = getattr(axi, f"{answer}valid")
    counts = []
    for number in range(n_ids):
        own = h.count(asked & (address_id == number), ended & (answer_id == number), 2 * outstanding - 1)
        h.assume(f"{answer}: id {number} only for its bursts", ~(answered & (answer_id == number)) | (own != 0))
        h.cover(f"{answer}: end of a burst of id {number}", ended & (answer_id == number))
        counts.append(own)
    h.prove(f"{address}: ids of clients only", ~getattr(axi, f"{address}valid") | (address_id < n_ids))
    h.assume(f"{answer}: ids of clients only", ~answered | (answer_id < n_ids))
    return counts


def bind_axi_read(h: Harness, axi, config, outstanding: int, n_ids: int) -> list:
    """Read channels of a master that has at most ``outstanding`` bursts under way and uses ids below ``n_ids``.

    Returns the number of bursts under way of each id, counted from the address's handshake.

    It assumes that the memory's R is a proper stream, and comes only for bursts whose address was taken.
    """
    _address_channel(h, axi, "ar", config)
    asked, ended = axi.arvalid & axi.arready, axi.rvalid & axi.rready & axi.rlast
    payload = _members(axi, "r", "id", "data", "resp", "last")
    handshake_rule(h, "r", axi.rvalid, axi.rready, payload, guarantee=False)
    counts = _under_way(h, axi, "ar", "r", asked, ended, outstanding, n_ids)
    total = sum(counts)
    h.prove(f"r: at most {outstanding} bursts under way", total + axi.arvalid <= outstanding)
    h.cover(f"r: {outstanding} bursts under way", total == outstanding)
    return counts


def bind_axi_write(h: Harness, axi, config, outstanding: int, n_ids: int) -> tuple[list, Followed]:
    """Write channels of a master, as :func:`bind_axi_read`; returns the followed burst too.

    One arbitrary burst is followed from its address to its last beat, and its beats must fit its address. It assumes
    that the memory's B comes only for bursts whose address and last beat were taken.
    """
    m = h.m
    _address_channel(h, axi, "aw", config)
    payload = _members(axi, "w", "data", "strb", "last")
    handshake_rule(h, "w", axi.wvalid, axi.wready, payload, guarantee=True)
    h.ignores("w: valid ignores ready", axi.wvalid, axi.wready)
    handshake_rule(h, "b", axi.bvalid, axi.bready, _members(axi, "b", "id", "resp"), guarantee=False)

    # Bursts are numbered modulo twice as many as may be under way.
    numbers = range(4 * outstanding)
    chosen = h.constant(numbers)
    shown, begun = Signal(numbers), Signal(numbers)  # bursts whose address was offered, whose last beat was taken
    length, beat = Signal(8), Signal(8)
    offered = axi.awvalid & ~h.before(axi.awvalid & ~axi.awready)
    moved = axi.wvalid & axi.wready
    announced = Signal(numbers)
    m.d.comb += announced.eq(shown + offered - begun)
    m.d.sync += [shown.eq(shown + offered), begun.eq(begun + (moved & axi.wlast))]
    now = Signal(8)  # beats - 1 of the burst that is followed
    m.d.comb += now.eq(Mux(offered & (shown == chosen), axi.awlen, length))
    m.d.sync += length.eq(now)
    with m.If(moved):
        m.d.sync += beat.eq(Mux(axi.wlast, 0, beat + 1))
    follows = axi.wvalid & (begun == chosen)
    h.prove("w: no beat before its burst is announced", ~axi.wvalid | (announced != 0))
    h.prove("w: last with the burst's last beat, and only there", ~follows | (axi.wlast == (beat == now)))
    h.cover("w: last of a burst of 3 beats", follows & moved & axi.wlast & (beat == 2))
    h.cover("w: two bursts back to back", h.before(moved & axi.wlast) & moved)

    answered = axi.bvalid & axi.bready
    taken = axi.awvalid & axi.awready
    complete = h.count(moved & axi.wlast, answered, 2 * outstanding - 1)
    h.assume("b: only for bursts that have ended", ~axi.bvalid | (complete != 0))
    counts = _under_way(h, axi, "aw", "b", taken, answered, outstanding, n_ids)
    pending = sum(counts)
    h.prove(f"b: at most {outstanding} bursts unanswered", pending + axi.awvalid <= outstanding)
    h.prove("w: the bursts that have ended are of those unanswered", complete + announced == pending + axi.awvalid)
    h.cover(f"b: {outstanding} bursts unanswered", pending == outstanding)
    ahead = Signal(numbers)
    m.d.comb += ahead.eq(chosen - begun)
    return counts, Followed(announced, beat, now, ahead)


def _answered(h, name, requests, valid, ready, limit):
    """A slave's answer channel: one answer for each set of requests, none without, within ``limit`` cycles."""
    m: Module = h.m
    waiting = 1
    for channel, taken in requests.items():
        open_ = Signal(2, name=f"open_{channel}")
        m.d.sync += open_.eq(open_ + taken - (valid & ready))
        h.prove(f"{name}: no answer without {channel}", ~valid | (open_ != 0))
        h.prove(f"{channel}: at most 2 unanswered", open_ <= 2)
        h.cover(f"{channel}: taken", taken)
        waiting = waiting & (open_ != 0)
    patience = Signal(range(limit + 2), name=f"patience_{name}")
    with m.If(waiting & ~valid):
        m.d.sync += patience.eq(patience + 1)
    with m.Else():
        m.d.sync += patience.eq(0)
    h.prove(f"{name}: answered within {limit} cycles", patience < limit)
    h.cover(f"{name}: answered", valid & ready)


def bind_axi_lite(h: Harness, bus) -> None:
    """A register slave: its answers' handshakes, and exactly one answer to each request.

    Assumed of the master: its three channels are proper handshakes.
    """
    for prefix, payload in (("aw", ("addr",)), ("w", ("data", "strb")), ("ar", ("addr",))):
        handshake_rule(h, prefix, getattr(bus, prefix + "valid"), getattr(bus, prefix + "ready"),
                       _members(bus, prefix, *payload), guarantee=False)  # fmt: skip
    for prefix, payload in (("b", ("resp",)), ("r", ("data", "resp"))):
        valid, ready = getattr(bus, prefix + "valid"), getattr(bus, prefix + "ready")
        handshake_rule(h, prefix, valid, ready, _members(bus, prefix, *payload), guarantee=True)
        h.ignores(f"{prefix}: valid ignores ready", valid, ready)
    writes = {"aw": bus.awvalid & bus.awready, "w": bus.wvalid & bus.wready}
    _answered(h, "b", writes, bus.bvalid, bus.bready, AXI_LITE_WRITE_CYCLES)
    _answered(h, "r", {"ar": bus.arvalid & bus.arready}, bus.rvalid, bus.rready, AXI_LITE_READ_CYCLES)
    h.cover("b: an error", bus.bvalid & (bus.bresp != 0))
    h.cover("r: an answer that isn't 0", bus.rvalid & (bus.rdata != 0))
