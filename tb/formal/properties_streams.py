"""Jobs: registers in streams."""

from adagp.rtl.lib.register_slice import RegisterSlice
from adagp.rtl.lib.skid import Skid
from amaranth import Mux, Signal

from .registry import job
from .rules import bind_streams

__all__ = []

WIDTH = 4


def _keeps_items(h, room):
    """Items leave in the order in which they came: the block is compared with a queue of ``room`` items."""
    dut = h.dut
    bind_streams(h)
    taken, given = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
    items = [Signal(WIDTH, name=f"item{place}") for place in range(room)]
    level = Signal(range(room + 1))
    behind = level - given  # items that the new one comes behind
    h.m.d.sync += level.eq(behind + taken)
    for place, item in enumerate(items):
        following = items[place + 1] if place + 1 < room else item
        h.m.d.sync += item.eq(Mux(taken & (behind == place), dut.i.payload, Mux(given, following, item)))
    h.prove("o: valid while there is an item", dut.o.valid == (level != 0))
    h.prove("o: the oldest item", ~dut.o.valid | (dut.o.payload == items[0]))
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
