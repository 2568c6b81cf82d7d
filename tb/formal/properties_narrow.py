"""Jobs: clients of fewer bits than the memory port's, with queues of few beats."""

from dataclasses import replace
from unittest.mock import patch

from adagp.rtl.memory import narrow
from adagp.rtl.memory.axi import BEGUN
from adagp.rtl.memory.narrow import WRITE_BURSTS, NarrowRead, NarrowWrite, _Pieces

from .registry import CONFIG, job
from .rules import bind_streams, counter_rule, fifo_rule

__all__ = []

SHORT = replace(CONFIG, max_burst_beats=4)
PORT = replace(SHORT, port_width=128)
BEATS = 4


def _few_beats():
    return patch.multiple(narrow, READ_BEATS=BEATS, WRITE_BEATS=BEATS)


def _pieces_rule(h, path):
    """Rules of a :class:`.narrow._Pieces` about its bursts; returns their queue."""
    bursts = h.block(f"{path}bursts")
    fifo_rule(h, f"{path}bursts", bursts, by_stream=True, covers=False)
    return bursts


@job("pieces", lambda: _Pieces(SHORT, PORT))
def _pieces(h):
    bind_streams(h)
    dut, bursts = h.dut, _pieces_rule(h, "")
    h.assume("step: only where there is a piece", ~dut.step | dut.valid)
    h.prove("valid: a burst is under way", dut.valid == (bursts.level != 0))
    h.prove("o: as many beats as the pieces touch, or fewer", dut.o.p.length <= dut.i.p.length)
    h.prove("last: it ends its beat too", ~dut.last | dut.end)
    h.cover("several bursts", bursts.level == 2)
    h.cover("the last piece", h.before(dut.step & dut.last) & ~dut.valid)


@job("narrow_read", lambda: NarrowRead(SHORT, PORT), patch=_few_beats)
def _narrow_read(h):
    bind_streams(h)
    pieces = h.block("pieces")
    _pieces_rule(h, "pieces.")
    h.assume("port.beats: they come for bursts", ~h.block("beats").r_rdy | pieces.valid)
    h.prove("step: only where there is a piece", ~pieces.step | pieces.valid)
    h.cover("port.beats: no room", h.dut.port.beats.valid & ~h.dut.port.beats.ready)


@job("narrow_write", lambda: NarrowWrite(SHORT, PORT), patch=_few_beats)
def _narrow_write(h):
    """Each burst taken is in one place: of its pieces, in its last beat, complete."""
    bind_streams(h)
    dut, begun, bursts = h.dut, _pieces_rule(h, "pieces."), h.block("bursts")
    fifo_rule(h, "bursts", bursts, covers=False)
    full, last, complete = (h.signal(name) for name in ("full", "last", "complete"))
    h.prove("every burst is somewhere", bursts.level == begun.level + (full & last) + complete)
    h.prove(f"at most {WRITE_BURSTS} bursts wait", bursts.level <= WRITE_BURSTS)
    h.assume("port.answer: to bursts that began", ~dut.port.answer.valid | (h.signal("unanswered") != 0))
    counter_rule(h, "unanswered", BEGUN, reach=2)
    h.prove("hold: no burst begins", ~dut.hold | ~dut.client.request.ready)
    h.cover("port.request: two bursts are complete", complete == 2)
