"""Jobs: the arbiters of the memory port."""

from adagp.rtl.memory.arbiters import ReadArbiter, WriteArbiter
from adagp.rtl.memory.axi import BEGUN, OUTSTANDING
from amaranth import Const, Mux, Signal
from amaranth.lib import stream

from .harness import interfaces
from .properties_memory import burst_form
from .registry import CONFIG, job
from .rules import bind_streams, counter_rule, fifo_rule
from .rules_axi import bind_axi_read, bind_axi_write
from .rules_walks import skid_rule

__all__ = []

READERS, WRITERS = 3, 2
"""Clients of the arbiters in the whole machine."""


def _arbiter(h, valid, ident, counts, ended, outstanding=OUTSTANDING, late=0):
    """Each client has the bursts of its id, and the arbiter counts all. ``ended(number)``: one ends in this cycle.

    ``late``: one has ended in the cycle before that the arbiter counts yet.
    """
    halt = h.block("grants").halt
    total, halted = 0, h.before(halt)
    h.prove("halt: a cycle later", halt == h.before(h.dut.halt))
    h.assume("halt: until the reset of all clients", ~h.before(h.dut.halt) | h.dut.halt)
    for number, (client, under_way) in enumerate(zip(h.dut.clients, counts, strict=True)):
        asked = client.request.valid & client.request.ready & ~halt
        own = h.count(asked, ended(number), 2 * BEGUN - 1)
        answer = client.answer.valid if hasattr(client, "answer") else client.beats.valid
        skid_rule(h, f"grants.client{number}", lambda request: burst_form(Const(1), request))
        skid = h.block(f"grants.client{number}")
        shown, waiting = under_way + (valid & (ident == number)), skid.o.valid + ~skid.i.ready
        h.prove(f"client {number}: its bursts are those of its id, and what waits",
                (own >= shown + waiting) & (halted | (own == shown + waiting)))  # fmt: skip
        h.prove(f"client {number}: at most {BEGUN} are begun", own <= BEGUN)
        h.prove(f"client {number}: nothing comes that it didn't ask for", ~answer | (own != 0))
        h.prove(f"client {number}: nothing waits while halted", ~halted | (waiting == 0))
        total = total + shown
    h.prove("the clients' bursts are all that are counted", total + late == h.signal("grants.outstanding"))
    h.prove("full: as many as there can be", h.signal("grants.full") == (h.signal("grants.outstanding") == outstanding))
    h.prove("idle tells that no burst is under way", ~h.dut.idle | (total == 0))
    h.prove("grants.last: a client", h.signal("grants.last") < len(h.dut.clients))
    counter_rule(h, "grants.outstanding", outstanding)
    h.prove("halt keeps requests back", ~halt | ~h.block("grants").accept)
    h.cover("halted while a client asks", h.dut.halt & h.dut.clients[0].request.valid)
    for path, out, port in interfaces(h.dut, stream.Signature):
        if path.endswith("request") and not out:
            h.assume(f"{path}: a burst within a page", burst_form(port.valid, port.p))
            h.cover(f"{path}: taken", port.valid & port.ready)


@job("read_arbiter", lambda: ReadArbiter(CONFIG, READERS), depth=60)
def _read_arbiter(h):
    port = h.dut.axi
    bind_streams(h)
    counts = bind_axi_read(h, port, CONFIG, OUTSTANDING, READERS)
    skid = h.block("beats")
    shown = [_shown(h, number, count) for number, count in enumerate(counts)]
    _arbiter(h, port.arvalid, port.arid, shown, lambda n: h.dut.read_beats & skid.o.p.last & skid.o.p.client[n],
             late=h.block("grants").finish)  # fmt: skip


def _shown(h, number, count):
    """Bursts whose last beat hasn't come to the client, of which ``count`` haven't come to the skid in front of it."""
    skid, spare = h.block("beats"), h.signal("beats.spare")
    if number == 0:
        skid_rule(h, "beats", lambda beat: sum(beat.client) == 1)
    waiting = ((skid.o.valid, skid.o.p), (~skid.i.ready, skid.o.p.shape()(spare)))
    (first, first_ends), (second, second_ends) = (
        (valid & beat.client[number], valid & beat.client[number] & beat.last) for valid, beat in waiting
    )
    h.prove(f"client {number}: behind a beat there is its burst's end",
            (~first | first_ends | second_ends | (count != 0)) & (~second | second_ends | (count != 0)))  # fmt: skip
    return count + first_ends + second_ends


@job("write_arbiter", lambda: WriteArbiter(CONFIG, WRITERS), depth=30)
def _write_arbiter(h):
    port = h.dut.axi
    bind_streams(h)
    counts, followed = bind_axi_write(h, port, CONFIG, OUTSTANDING, WRITERS)
    for number, client in enumerate(h.dut.clients):
        h.prove(f"client {number}: hold keeps its requests back", ~(h.dut.hold[number] & client.request.ready))
        h.cover(f"client {number}: held alone", h.dut.hold[number] & h.dut.clients[1 - number].request.ready)
    _arbiter(h, port.awvalid, port.awid, counts, lambda n: port.bvalid & (port.bid == n))
    _order(h, followed)


def _order(h, followed):
    """The order of bursts holds those whose last beat hasn't come to the skid in front of W, each with its length."""
    order, present, skid, port = h.block("order"), h.block("present"), h.block("beats"), h.dut.axi
    fifo_rule(h, "order", order, reach=OUTSTANDING - 2)  # two more bursts are in the skid behind it
    skid_rule(h, "present")
    skid_rule(h, "beats")
    in_front = present.o.valid + ~present.i.ready
    first, second = skid.o.valid, ~skid.i.ready
    first_ends, second_ends = first & skid.o.p.last, second & skid.o.p.shape()(h.signal("beats.spare")).last
    ended, here = first_ends + second_ends, followed.ahead < followed.announced
    h.prove("order: a place for each burst announced, but those that wait to end",
            order.level + in_front + ended == followed.announced)  # fmt: skip
    h.prove("order: no more bursts than are under way", order.level + in_front <= h.signal("grants.outstanding"))
    behind = Mux(second_ends, 0, Mux(first_ends, second, (followed.beat + first + second)[:8]))
    h.prove("count: beats of the burst in front", h.signal("count") == behind)
    inside, moved = Signal(), skid.i.valid & skid.i.ready  # of the burst in front, some beats have come
    with h.m.If(moved):
        h.m.d.sync += inside.eq(~skid.i.p.last)
    h.prove("order: has the burst whose beats have come", ~inside | present.o.valid)
    h.prove("beats: the newest says whether its burst has ended",
            ~first | (inside == ~Mux(second, second_ends, first_ends)))  # fmt: skip
    h.prove("beats: the first ends its burst with its last beat, and only there",
            ~(here & first & (followed.ahead == 0)) | (first_ends == (followed.beat == followed.length)))  # fmt: skip
    h.prove("beats: the second ends its burst with its last beat, and only there",
            ~(here & second & (followed.ahead == first_ends))
            | (second_ends == (Mux(first_ends, 0, (followed.beat + 1)[:8]) == followed.length)))  # fmt: skip

    produce, consume = h.signal("order.produce"), h.signal("order.consume")
    (stored,), depth = h.signals("order.inner_level"), order.depth - 1
    end = consume + stored
    h.prove("order: what is stored lies between its ends", (end == produce) | (end == produce + depth))
    h.prove("order: both ends are places of it", (produce < depth) & (consume < depth))

    def length(place):
        """Beats - 1 of the burst at a stored place of the order: its upper bits."""
        return h.word("order.storage", Mux(place < depth, place, place - depth))[-len(port.awlen) :]

    offered = port.awvalid & ~h.before(port.awvalid & ~port.awready)
    h.prove("order: the last one is what AW shows", ~port.awvalid | (length(produce + depth - 1) == port.awlen))
    h.prove("order: has stored what AW begins to show", ~offered | (stored != 0))
    place = (followed.ahead - ended)[: len(followed.ahead)]
    behind = (place - in_front)[: len(place)]  # of the two in front
    there = Mux(order.r_rdy & (behind == 0), order.r_data[-len(port.awlen) :],
                length((consume + behind - order.r_rdy)[: len(place)]))  # fmt: skip
    for number, (held, item) in enumerate((
        (~present.i.ready, h.signal("present.spare")), (present.o.valid, present.o.p.as_value()),
    )):  # fmt: skip
        there = Mux(held & (place == 1 - number), item[-len(port.awlen) :], there)
    h.prove("order: the length of a burst stands in its place",
            ~here | (followed.ahead < ended) | (there == followed.length))  # fmt: skip
