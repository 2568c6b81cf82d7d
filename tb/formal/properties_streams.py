"""Jobs: registers and queues in streams."""

from adagp.rtl.lib.register_slice import RegisterSlice
from adagp.rtl.lib.room_queue import RoomQueue
from adagp.rtl.lib.skid import Skid
from amaranth import Mux, Signal

from .registry import job
from .rules import bind_streams
from .rules_walks import room_rule

__all__ = []

WIDTH = 4
ROOM = 8


def _queue_of(h, taken, payload, room):
    """Items leave in the order in which they came: the block is compared with a queue of ``room`` items.

    Returns the items, the oldest first, and how many there are.
    """
    dut = h.dut
    bind_streams(h)
    given = dut.o.valid & dut.o.ready
    items = [Signal(WIDTH, name=f"item{place}") for place in range(room)]
    level = Signal(range(room + 1), name="items")
    ahead = level - given  # items before the new one
    h.m.d.sync += level.eq(ahead + taken)
    for place, item in enumerate(items):
        following = items[place + 1] if place + 1 < room else item
        h.m.d.sync += item.eq(Mux(taken & (ahead == place), payload, Mux(given, following, item)))
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
