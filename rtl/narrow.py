"""Clients of fewer bits than the memory port's: their bursts in its beats."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..spec.config import Config
from .axi import BEGUN
from .interfaces import ReadClient, WriteClient

__all__ = ["NarrowRead", "NarrowWrite"]


class _Pieces(wiring.Component):
    """Requests for pieces of beats on their way from ``i`` to ``o``, and where the pieces are.

    Requests pass without a register; BEGUN may be under way. While ``valid``, ``place`` is the next piece's in its
    beat, and ``end`` says whether it is the last wanted of that; ``step`` goes to the one behind it.
    """

    def __init__(self, config: Config, port: Config):
        self._piece_bits = exact_log2(config.beat_bytes)
        self._place_bits = exact_log2(port.beat_bytes // config.beat_bytes)
        request = ReadClient(config).members["request"].signature
        super().__init__({
            "i": In(request), "o": Out(request), "step": In(1),
            "valid": Out(1), "place": Out(self._place_bits), "end": Out(1),
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
        final = Signal()
        m.d.comb += [
            self.valid.eq(bursts.r_rdy), self.place.eq(Mux(begun, following, present.first)),
            final.eq(count == present.length), self.end.eq(final | self.place.all()),
            bursts.r_en.eq(self.step & final),
        ]  # fmt: skip
        with m.If(self.step):
            m.d.sync += [begun.eq(~final), following.eq(self.place + 1), count.eq(Mux(final, 0, count + 1))]
        return m


class NarrowRead(wiring.Component):
    """Serves a client of ``config.port_width`` bits through a port of ``port.port_width``, both powers of two.

    A beat of the port is held until all that is wanted of it has been taken, a piece a cycle, the first one a cycle
    after the beat.
    """

    def __init__(self, config: Config, port: Config):
        self._pieces = _Pieces(config, port)
        super().__init__({"client": In(ReadClient(config)), "port": Out(ReadClient(port))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.pieces = pieces = self._pieces
        connect(m, flipped(self.client.request), pieces.i)
        connect(m, pieces.o, flipped(self.port.request))
        beat, beats = self.port.beats, self.client.beats
        held, full = Signal.like(beat.payload, reset_less=True), Signal()
        m.d.comb += [
            beats.valid.eq(full), pieces.step.eq(full & beats.ready), beat.ready.eq(~full | (pieces.step & pieces.end)),
            beats.payload.data.eq(held.data.word_select(pieces.place, len(beats.payload.data))),
            beats.payload.fault.eq(held.fault),
        ]  # fmt: skip
        with m.If(beat.ready):
            m.d.sync += [held.eq(beat.payload), full.eq(beat.valid)]
        return m


class NarrowWrite(wiring.Component):
    """As :class:`NarrowRead`; a beat of the port is offered in the cycle after its last piece."""

    def __init__(self, config: Config, port: Config):
        self._pieces = _Pieces(config, port)
        super().__init__({"client": In(WriteClient(config)), "port": Out(WriteClient(port))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.pieces = pieces = self._pieces
        connect(m, flipped(self.client.request), pieces.i)
        connect(m, pieces.o, flipped(self.port.request))
        beat, piece, room = self.port.beats, self.client.beats, Signal()
        m.d.comb += [
            room.eq(~beat.valid | beat.ready), piece.ready.eq(pieces.valid & room),
            pieces.step.eq(piece.valid & piece.ready),
            self.client.answer.valid.eq(self.port.answer.valid),
            self.client.answer.payload.eq(self.port.answer.payload),
        ]  # fmt: skip
        with m.If(room):
            m.d.sync += beat.valid.eq(pieces.step & pieces.end)
        with m.If(beat.valid & beat.ready):
            m.d.sync += beat.payload.strobe.eq(0)
        with m.If(pieces.step):
            m.d.sync += [
                getattr(beat.payload, name).word_select(pieces.place, len(getattr(piece.payload, name))).eq(
                    getattr(piece.payload, name)
                ) for name in ("data", "strobe")
            ]  # fmt: skip
        return m
