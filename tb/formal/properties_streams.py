"""Jobs: registers and queues in streams."""

from adagp.rtl.lib.pair_queue import PairQueue
from adagp.rtl.lib.register_slice import RegisterSlice
from adagp.rtl.lib.room_queue import RoomQueue
from adagp.rtl.lib.skid import Skid
from amaranth import Mux, Signal

from .registry import job
from .rules import bind_streams, pair_rule
from .rules_walks import room_rule

__all__ = []

WIDTH = 4
ROOM = 8


def _model(h, room, taken, new, given):
    """A queue of ``room`` items, the oldest first, and how many there are."""
    items = [Signal(WIDTH, name=f"item{place}") for place in range(room)]
    level = Signal(range(room + 1), name="items")
    ahead = level - given  # items before the new one
    h.m.d.sync += level.eq(ahead + taken)
    for place, item in enumerate(items):
        following = items[place + 1] if place + 1 < room else item
        h.m.d.sync += item.eq(Mux(taken & (ahead == place), new, Mux(given, following, item)))
    return items, level


def _queue_of(h, taken, payload, room):
    """Items leave in the order in which they came: the block is compared with a queue of ``room`` items.

    Returns the items, the oldest first, and how many there are.
    """
    dut = h.dut
    bind_streams(h)
    items, level = _model(h, room, taken, payload, dut.o.valid & dut.o.ready)
    h.prove("o: valid while there is an item", dut.o.valid == (level != 0))
    h.prove("o: the oldest item", ~dut.o.valid | (dut.o.payload == items[0]))
    return items, level


def _keeps_items(h, room):
    """The block is a queue of ``room`` items between two streams."""
    dut = h.dut
    taken, given = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
    items, level = _queue_of(h, taken, dut.i.payload, room)
    h.prove(f"i: room for {room}", dut.i.ready | (level == room))
    h.cover("i: full", level == room)
    if room > 1:
        h.prove("spare: the newest item of two", (level < room) | (h.signal("spare") == items[1]))
        h.prove("ready: the spare register is free", dut.i.ready == (level < room))
        h.cover("an item every cycle", h.before(taken & given) & taken & given)


@job("register_slice", lambda: RegisterSlice(WIDTH))
def _register_slice(h):
    _keeps_items(h, 1)


@job("skid", lambda: Skid(WIDTH))
def _skid(h):
    _keeps_items(h, 2)


@job("pair_queue", lambda: PairQueue(WIDTH))
def _pair_queue(h):
    """Items leave in the order in which they came, wherever a reader takes them after they have moved."""
    dut, moves = h.dut, h.signal("moves")
    pair_rule(h, "")
    h.assume("r_en: only what can be read", ~dut.r_en | (dut.r_rdy & ~moves))
    items, level = _model(h, 2, dut.w_en & dut.w_rdy, dut.w_data, dut.r_en)
    h.prove("level: the items that there are", dut.level == level)
    h.prove("r_data: the oldest item, from a cycle after r_rdy on", ~dut.r_rdy | moves | (dut.r_data == items[0]))
    near = Mux(dut.r_rdy & ~moves, items[1], items[0])
    h.prove("near: the newest item, until it has moved", dut.w_rdy | (h.signal("near") == near))
    h.prove("w_rdy: two cycles after an item can move",
            ~h.before(h.before(~dut.w_rdy & ~dut.r_rdy)) | dut.w_rdy)  # fmt: skip
    h.cover("two items", dut.level == 2)
    h.cover("an item is read as another is written", dut.r_en & dut.w_en & dut.w_rdy)


@job("room_queue", lambda: RoomQueue(WIDTH, ROOM))
def _room_queue(h):
    dut = h.dut
    begun = h.count(dut.begins, dut.valid, ROOM)
    h.assume("begins: only while it may", ~dut.begins | dut.may)
    h.assume("valid: an item that has begun", ~dut.valid | (begun != 0))
    items, level = _queue_of(h, dut.valid, dut.payload, ROOM)
    held = room_rule(h, "", begun)
    h.prove("level: the items", h.signal("level") == level)
    for place, (there, found) in enumerate(held):
        h.prove(f"place {place}: its item", ~there | (found == items[place]))
    h.cover(f"{ROOM} items in the queue", level == ROOM)
    h.cover("an item every cycle", h.before(dut.begins & dut.o.valid & dut.o.ready) & dut.begins & dut.o.valid)
