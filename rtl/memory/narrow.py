"""Clients narrower than the memory port: their bursts as pieces of its beats."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ...spec.config import Config
from ..lib.block_queue import BlockQueue
from ..lib.interfaces import ReadClient, WriteClient
from .axi import BEGUN

__all__ = ["NarrowRead", "NarrowWrite"]

READ_BEATS = 256
WRITE_BEATS = 64
"""Beats of the port that may wait, or two bursts if that is more; memory blocks have as many words anyway."""
WRITE_BURSTS = 4
"""Bursts that may wait for their beats."""


class _Pieces(wiring.Component):
    """Turns requests for pieces of beats into requests for beats, and numbers the pieces.

    Members
    -------
    i, o : In(request stream), Out(request stream)
        requests of the client and of the port; at most BEGUN are under way
    valid : Out(1)
        a piece is expected
    place, end, last : Out
        the piece's place in its beat; it is the last wanted of its beat; the last of its burst
    step : In(1)
        go on to the next piece

    Timing
    ------
    Requests pass without a register.
    """

    def __init__(self, config: Config, port: Config):
        self._piece_bits = exact_log2(config.beat_bytes)
        self._place_bits = exact_log2(port.beat_bytes // config.beat_bytes)
        request = ReadClient(config).members["request"].signature
        super().__init__({
            "i": In(request), "o": Out(request), "step": In(1),
            "valid": Out(1), "place": Out(self._place_bits), "end": Out(1), "last": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        burst = data.StructLayout({"first": self._place_bits, "length": len(self.i.payload.length)})
        m.submodules.bursts = bursts = SyncFIFO(width=burst.size, depth=BEGUN)
        asked, present = Signal(burst), burst(bursts.r_data)
        skipped = self._piece_bits + self._place_bits
        m.d.comb += [
            asked.first.eq(self.i.payload.addr[self._piece_bits :]), asked.length.eq(self.i.payload.length),
            bursts.w_data.eq(asked), bursts.w_en.eq(self.i.valid & self.i.ready),
            self.i.ready.eq(self.o.ready & bursts.w_rdy), self.o.valid.eq(self.i.valid & bursts.w_rdy),
            self.o.payload.addr.eq(Cat(Const(0, skipped), self.i.payload.addr[skipped:])),
            self.o.payload.length.eq((asked.first + asked.length) >> self._place_bits),
        ]  # fmt: skip

        begun, following, count = Signal(), Signal.like(self.place), Signal.like(present.length)
        m.d.comb += [
            self.valid.eq(bursts.r_rdy), self.place.eq(Mux(begun, following, present.first)),
            self.last.eq(count == present.length), self.end.eq(self.last | self.place.all()),
            bursts.r_en.eq(self.step & self.last),
        ]  # fmt: skip
        with m.If(self.step):
            m.d.sync += [begun.eq(~self.last), following.eq(self.place + 1), count.eq(Mux(self.last, 0, count + 1))]
        return m


class NarrowRead(wiring.Component):
    """Serves a client of ``config.port_width`` bits through a port of ``port.port_width``, both powers of two.

    READ_BEATS of the port's beats may wait here, so that a slow client doesn't hold up others.

    Parameters
    ----------
    config : Config
        the client's widths
    port : Config
        the port's widths

    Members
    -------
    client : In(ReadClient(config))
        the client
    port : Out(ReadClient(port))
        the port

    Timing
    ------
    A piece per cycle, the first two cycles after its beat.
    """

    def __init__(self, config: Config, port: Config):
        self._pieces = _Pieces(config, port)
        super().__init__({"client": In(ReadClient(config)), "port": Out(ReadClient(port))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.pieces = pieces = self._pieces
        connect(m, flipped(self.client.request), pieces.i)
        connect(m, pieces.o, flipped(self.port.request))
        beat, piece = self.port.beats, self.client.beats
        m.submodules.beats = beats = BlockQueue(beat.payload.shape().size, READ_BEATS)
        held = data.View(beat.payload.shape(), beats.r_data)
        m.d.comb += [
            beats.w_en.eq(beat.valid), beats.w_data.eq(beat.payload), beat.ready.eq(beats.w_rdy),
            piece.valid.eq(beats.r_rdy), pieces.step.eq(beats.r_rdy & piece.ready),
            beats.r_en.eq(pieces.step & pieces.end),
            piece.payload.data.eq(held.data.word_select(pieces.place, len(piece.payload.data))),
            piece.payload.fault.eq(held.fault),
        ]  # fmt: skip
        return m


class NarrowWrite(wiring.Component):
    """Serves a writing client of ``config.port_width`` bits through a port of ``port.port_width``.

    A burst is asked for when all its beats are here, so that it holds nobody up.

    Parameters
    ----------
    config : Config
        the client's widths
    port : Config
        the port's widths

    Members
    -------
    client : In(WriteClient(config))
        the client
    port : Out(WriteClient(port))
        the port
    hold : In(1)
        no burst begins: none is taken from the client, and those taken go on
    """

    def __init__(self, config: Config, port: Config):
        self._pieces = _Pieces(config, port)
        longest = config.max_burst_beats * config.beat_bytes // port.beat_bytes
        self._depth = max(WRITE_BEATS, 2 * longest)
        super().__init__({"client": In(WriteClient(config)), "port": Out(WriteClient(port)), "hold": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.pieces = pieces = self._pieces
        asked = self.port.request.payload
        m.submodules.bursts = bursts = SyncFIFO(width=len(asked.as_value()), depth=WRITE_BURSTS)
        m.submodules.beats = beats = BlockQueue(self.port.beats.payload.shape().size, self._depth)
        self._collect(m, pieces, beats)

        unanswered = Signal(range(BEGUN + 1))
        complete = Signal(range(WRITE_BURSTS + 1))
        begins, leaves, room = Signal(), Signal(), Signal()
        request, answer = self.client.request, self.port.answer
        m.d.comb += [
            room.eq(bursts.w_rdy & (unanswered != BEGUN) & ~self.hold), begins.eq(request.valid & request.ready),
            pieces.i.valid.eq(request.valid & room), request.ready.eq(pieces.i.ready & room),
            pieces.i.payload.eq(request.payload), pieces.o.ready.eq(1),
            bursts.w_en.eq(begins), bursts.w_data.eq(pieces.o.payload),
            self.port.request.valid.eq(complete != 0), asked.eq(bursts.r_data),
            leaves.eq(self.port.request.valid & self.port.request.ready), bursts.r_en.eq(leaves),
            self.port.beats.valid.eq(beats.r_rdy), self.port.beats.payload.eq(beats.r_data),
            beats.r_en.eq(self.port.beats.ready),
            self.client.answer.valid.eq(answer.valid), self.client.answer.payload.eq(answer.payload),
        ]  # fmt: skip
        m.d.sync += [
            unanswered.eq(unanswered + begins - answer.valid), complete.eq(complete + self.completes - leaves),
        ]  # fmt: skip
        return m

    def _collect(self, m, pieces, beats):
        """Collect pieces into a beat, which goes into the queue; ``completes`` pulses with a burst's last beat."""
        piece = self.client.beats
        beat, moves = Signal(self.port.beats.payload.shape()), Signal()
        full, last = Signal(name="full"), Signal(name="last")
        self.completes = Signal()
        m.d.comb += [
            beats.w_en.eq(full), beats.w_data.eq(beat), moves.eq(full & beats.w_rdy),
            piece.ready.eq(pieces.valid & (~full | moves)), pieces.step.eq(piece.valid & piece.ready),
            self.completes.eq(moves & last),
        ]  # fmt: skip
        with m.If(moves):
            m.d.sync += [full.eq(0), beat.strobe.eq(0)]
        with m.If(pieces.step):
            m.d.sync += [full.eq(pieces.end), last.eq(pieces.last)]
            for name in ("data", "strobe"):
                part = getattr(piece.payload, name)
                m.d.sync += getattr(beat, name).word_select(pieces.place, len(part)).eq(part)
