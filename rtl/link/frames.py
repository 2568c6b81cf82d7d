"""Frames of the host link: from a line's bytes to checked bodies, and back; see :mod:`adagp.spec.link`."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.wiring import In, Out

from ...spec.link import CRC_BYTES, ESCAPE, FLAG, FLIP

__all__ = ["Framer", "FramerInput", "Unframer"]

_CRC = CRC32_ISO_HDLC(data_width=8)

FramerInput = data.StructLayout({"data": 8, "last": 1})
"""A byte of a body; ``last`` for its last."""


class Unframer(wiring.Component):
    """Finds frames between flags: takes escapes out, and checks CRCs.

    Members
    -------
    i : In(stream of bytes)
        the line
    error : In(1)
        a byte was lost, which spoils its frame
    o : Out(stream of bytes)
        body and CRC
    end, good : Out(1)
        pulses after a frame of at least one byte; its CRC is right

    Timing
    ------
    Bytes come out in the cycle in which they come.
    """

    i: In(stream.Signature(8, always_ready=True))
    error: In(1)
    o: Out(stream.Signature(8, always_ready=True))
    end: Out(1)
    good: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = _CRC.create()
        escaped, some, spoilt = Signal(), Signal(), Signal()
        is_flag = self.i.payload == FLAG
        is_escape = self.i.payload == ESCAPE
        m.d.comb += [
            self.o.payload.eq(self.i.payload ^ Mux(escaped, FLIP, 0)),
            self.o.valid.eq(self.i.valid & ~is_flag & ~is_escape),
            self.end.eq(self.i.valid & is_flag & some),
            self.good.eq(crc.match_detected & ~escaped & ~spoilt),
            crc.data.eq(self.o.payload),
            crc.valid.eq(self.o.valid),
            crc.start.eq(self.i.valid & is_flag),
        ]
        with m.If(self.i.valid):
            m.d.sync += [escaped.eq(is_escape), some.eq(~is_flag)]
            with m.If(is_flag):
                m.d.sync += spoilt.eq(0)
        with m.If(self.error):
            m.d.sync += spoilt.eq(1)
        return m


class Framer(wiring.Component):
    """Makes frames of bodies: adds flags, escapes and CRC.

    Members
    -------
    i : In(stream of FramerInput)
        bodies
    o : Out(stream of bytes)
        the line
    """

    i: In(stream.Signature(FramerInput))
    o: Out(stream.Signature(8))

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = _CRC.create()
        i, o = self.i, self.o
        byte, inside, sent, escaped = Signal(8), Signal(), Signal(), Signal()
        place = Signal(range(CRC_BYTES))
        special = (byte == FLAG) | (byte == ESCAPE)
        m.d.comb += [
            o.payload.eq(Mux(~inside, FLAG, Mux(escaped, byte ^ FLIP, Mux(special, ESCAPE, byte)))),
            sent.eq(o.valid & o.ready & (~inside | escaped | ~special)),
            crc.data.eq(byte),
        ]
        with m.If(o.valid & o.ready):
            m.d.sync += escaped.eq(inside & special & ~escaped)
        with m.FSM():
            with m.State("BEGIN"):
                m.d.comb += [o.valid.eq(i.valid), crc.start.eq(1)]
                with m.If(sent):
                    m.next = "BODY"
            with m.State("BODY"):
                m.d.comb += [
                    inside.eq(1), byte.eq(i.p.data), o.valid.eq(i.valid), i.ready.eq(sent), crc.valid.eq(sent),
                ]  # fmt: skip
                with m.If(sent & i.p.last):
                    m.d.sync += place.eq(0)
                    m.next = "CRC"
            with m.State("CRC"):
                m.d.comb += [inside.eq(1), byte.eq(crc.crc.word_select(place, 8)), o.valid.eq(1)]
                with m.If(sent):
                    m.d.sync += place.eq(place + 1)
                    with m.If(place == CRC_BYTES - 1):
                        m.next = "END"
            with m.State("END"):
                m.d.comb += o.valid.eq(1)
                with m.If(sent):
                    m.next = "BEGIN"
        return m
