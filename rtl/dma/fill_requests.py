"""Fill's memory side: tokens, bursts, and what the data side is to do."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...spec.config import Config
from ...spec.microcode.descriptors import FILL, Target
from ..lib.block_queue import BlockQueue
from ..lib.delay import delayed
from ..lib.interfaces import ReadClient, Token, descriptor_layout, descriptor_stream
from ..lib.standing_queue import StandingQueue
from .bursts import Bursts, most_bits, pad_element_bits
from .segments import SegmentLayout, Segments

__all__ = ["FillRequests"]

_LAYOUT = descriptor_layout(FILL)
SEGMENTS_AHEAD = 512
"""Segments whose bursts may be asked for before their data comes: as many as a memory block holds."""


def _segment_layout(config):
    """A segment for the data side, which needs its place within a beat."""
    return SegmentLayout(exact_log2(config.beat_bytes), pad_element_bits(config), most_bits(config))


class FillRequests(wiring.Component):
    """Fill's memory side: takes tokens, asks for bursts, passes descriptors on to the data side.

    It may be two descriptors ahead of the data side, and SEGMENTS_AHEAD segments. A descriptor goes on, and its bursts
    are asked for, once its token is taken. The data side therefore takes every beat without waiting for another block.

    Members
    -------
    i, o : In, Out(descriptor_stream(FILL))
        descriptors from the sequencer, and on to the data side
    segments : Out(stream of SegmentLayout)
        their segments, for the data side
    last : Out(1)
        the segment is its descriptor's last
    request : Out(request stream)
        bursts
    a_free, b_free, c_free : Out(Token())
        free halves of the scratchpads
    wanted : Out(1)
        a descriptor is there, and its token
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "i": In(descriptor_stream(FILL)),
            "o": Out(descriptor_stream(FILL)),
            "segments": Out(stream.Signature(_segment_layout(config))), "last": Out(1),
            "request": Out(ReadClient(config).members["request"].signature),
            "a_free": Out(Token()), "b_free": Out(Token()), "c_free": Out(Token()), "wanted": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = StandingQueue(_LAYOUT.size)
        most = most_bits(self._config)
        m.submodules.segments = segments = Segments(FILL, 32, pad_element_bits(self._config), most)
        m.submodules.walk = walk = Bursts(self._config, SegmentLayout(32, 0, most))
        m.submodules.ahead = ahead = BlockQueue(self.segments.payload.shape().size + 1, SEGMENTS_AHEAD)
        d = self.i.payload
        avail, taken = Signal(), Signal()
        m.d.comb += [
            self.wanted.eq(self.i.valid & avail),
            self.i.ready.eq(taken),
            queue.w_en.eq(taken),
            queue.w_data.eq(d),
            queue.r_en.eq(self.o.ready),
            self.o.valid.eq(queue.r_rdy),
            self.o.payload.eq(queue.r_data),
            segments.i.valid.eq(taken),
            segments.i.payload.eq(d),
            self.request.valid.eq(walk.o.valid),
            self.request.payload.addr.eq(walk.o.payload.addr),
            self.request.payload.length.eq(walk.o.payload.length),
            walk.o.ready.eq(self.request.ready),
        ]
        # Registered, as it has hundreds of loads; its conditions stay true until the descriptor goes.
        m.d.sync += taken.eq(self.wanted & queue.w_rdy & segments.i.ready & ~taken)
        self._segments(m, segments, walk, ahead)
        with m.Switch(d.target):
            for target, token in ((Target.A, self.a_free), (Target.B, self.b_free), (None, self.c_free)):
                with m.Case(target) if target is not None else m.Default():
                    m.d.comb += [avail.eq(token.avail | ~d.open), token.take.eq(taken & d.open)]
        return m

    def _segments(self, m, segments, walk, ahead):
        """Give each segment to the bursts and, through a queue, to the data side, in the same cycle."""
        one, later = segments.o.payload, Signal.like(self.segments.payload)
        for to in (walk.i.payload, later):
            m.d.comb += [
                to.place.dram.eq(one.place.dram), to.place.sp.eq(one.place.sp), to.last.eq(one.last),
            ]  # fmt: skip
        m.d.comb += [
            segments.o.ready.eq(walk.i.ready & ahead.w_rdy),  # neither waits for a segment to be ready
            walk.i.valid.eq(segments.o.valid & ahead.w_rdy), ahead.w_en.eq(segments.o.valid & walk.i.ready),
            ahead.w_data.eq(Cat(later, segments.last)), ahead.r_en.eq(~self.segments.valid | self.segments.ready),
        ]  # fmt: skip
        segment = delayed(m, ahead.r_data, 1, ahead.r_en, reset=False)  # as memory blocks take most of a cycle
        m.d.comb += Cat(self.segments.payload, self.last).eq(segment)
        with m.If(ahead.r_en):
            m.d.sync += self.segments.valid.eq(ahead.r_rdy)
