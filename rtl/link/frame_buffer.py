"""Buffer for the host link's requests, which come out once they are known to be whole."""

from amaranth import Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.link import CRC_BYTES, MAX_PAYLOAD, REQUEST, Kind, n_bytes

__all__ = ["DEPTH", "FrameBuffer"]

DEPTH = 2 * MAX_PAYLOAD
"""Bytes of the queue: room for a request that is carried out, and for the next one."""

_KIND_AT, _LENGTH_AT = 1, 2
_SHORTEST = n_bytes(REQUEST) + CRC_BYTES


class FrameBuffer(wiring.Component):
    """A queue of bytes to which whole requests are added.

    A frame is dropped if it isn't good, of an unknown kind, of another length than its header says, or longer than the
    room left. The bytes of other frames come out, CRC included, after their end has come.

    Members
    -------
    i, end, good
        bytes and ends of frames; see :class:`.frames.Unframer`
    o : Out(stream of bytes)
        whole requests

    Timing
    ------
    Two cycles from ``end`` to the first byte.
    """

    i: In(stream.Signature(8, always_ready=True))
    end: In(1)
    good: In(1)
    o: Out(stream.Signature(8))

    def elaborate(self, platform):
        m = Module()
        m.submodules.bytes = bytes_ = memory.Memory(shape=8, depth=DEPTH, init=[])
        writes, reads = bytes_.write_port(), bytes_.read_port()
        whole, first, end = Signal(), Signal(range(2 * DEPTH)), Signal(range(2 * DEPTH))
        place = Signal(range(2 * DEPTH))
        room = (place - first)[: len(first)] != DEPTH
        full = Signal()
        m.d.comb += [
            writes.addr.eq(place), writes.data.eq(self.i.payload), writes.en.eq(self.i.valid & room & ~full),
            reads.addr.eq(first), reads.en.eq((first != end) & (~self.o.valid | self.o.ready)),
            self.o.payload.eq(reads.data),
            whole.eq(self.good & ~full & self._fits(m)),
        ]  # fmt: skip
        with m.If(self.i.valid):
            with m.If(room & ~full):
                m.d.sync += place.eq(place + 1)
            with m.Else():
                m.d.sync += full.eq(1)
        with m.If(self.end):
            m.d.sync += full.eq(0)
            with m.If(whole):
                m.d.sync += end.eq(place)
            with m.Else():
                m.d.sync += place.eq(end)
        with m.If(reads.en):
            m.d.sync += [first.eq(first + 1), self.o.valid.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m

    def _fits(self, m):
        """True if the frame that ends now is of a known kind and as long as its header says."""
        count = Signal(range(2 * DEPTH))
        known, writes = Signal(), Signal()
        length = Signal(16)
        with m.If(self.i.valid):
            m.d.sync += count.eq(Mux(count == 2 * DEPTH - 1, count, count + 1))
            with m.Switch(count):
                with m.Case(_KIND_AT):
                    byte = self.i.payload
                    m.d.sync += [known.eq(byte < len(Kind)), writes.eq((byte > Kind.WAIT) & byte[0])]
                with m.Case(_LENGTH_AT):
                    m.d.sync += length[:8].eq(self.i.payload)
                with m.Case(_LENGTH_AT + 1):
                    m.d.sync += length[8:].eq(self.i.payload)
        with m.If(self.end):
            m.d.sync += count.eq(0)
        return known & (count == _SHORTEST + Mux(writes, length, 0))
