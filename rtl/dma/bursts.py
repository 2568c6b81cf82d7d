"""From segments to memory traffic: their bursts in DRAM, their beats in the scratchpad."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...spec.config import Config
from ..lib.skid import Skid
from .segments import LENGTH_BITS, SegmentLayout

__all__ = ["BeatLayout", "Beats", "BurstLayout", "Bursts", "most_bits", "pad_element_bits"]

BurstLayout = data.StructLayout({"addr": 32, "length": 8, "first": 32, "last": 33})
"""A burst: address of its first beat, its number of beats - 1, the first and the last byte wanted."""


def BeatLayout(config: Config) -> data.StructLayout:
    """A beat as scratchpad lanes: lane j is operand j of the beat.

    ``addr`` has the lanes' element addresses within a half, ``mask`` the lanes that belong to the segment. ``first`` is
    the first of these lanes if the beat begins a segment.
    """
    lanes = config.beat_elements
    return data.StructLayout({
        "addr": data.ArrayLayout(pad_element_bits(config), lanes), "mask": lanes, "first": range(lanes),
    })  # fmt: skip


def pad_element_bits(config: Config) -> int:
    """Bits that number the operands in half of the largest scratchpad."""
    return (max(config.a_elements, config.b_elements, config.c_elements) - 1).bit_length()


def most_bits(config: Config) -> int:
    """Bits of the greatest length or number of turns in a descriptor, less one: at most the operands of a half.

    With products of vectors, descriptors may go to the same places again and again.
    """
    return LENGTH_BITS if config.adds_products else pad_element_bits(config)


def _single(place, last):
    """True if operand ``last``, counted from one at ``place`` in a block, is in that block; faster than their sum."""
    bits = len(place)
    return (last[bits:] == 0) & ~(place + last[:bits])[bits]


class Bursts(wiring.Component):
    """The bursts of segments in order, each within its aligned block of ``max_burst_beats``.

    Parameters
    ----------
    config : Config
        decides the length of bursts
    segment : SegmentLayout
        layout of a segment

    Members
    -------
    i : In(stream of ``segment``)
        segments
    o : Out(stream of BurstLayout)
        bursts
    idle : Out(1)
        no segment is offered, and all bursts of those taken from ``i`` have been taken from ``o``

    Timing
    ------
    At best one burst per cycle.
    """

    def __init__(self, config: Config, segment: data.StructLayout):
        self._config = config
        self._segment = segment
        super().__init__({
            "i": In(stream.Signature(segment)), "o": Out(stream.Signature(BurstLayout)), "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.skid = skid = Skid(self._segment)
        wiring.connect(m, wiring.flipped(self.i), skid.i)
        segment, dram = skid.o.payload, skid.o.payload.place.dram

        # The segment whose bursts are being offered: bytes first..last, in blocks that a burst must stay in.
        operand_shift = exact_log2(config.operand_bytes)
        beat_bits = exact_log2(config.beat_bytes)
        block_bits = beat_bits + exact_log2(config.max_burst_beats)
        place = dram[operand_shift:block_bits]
        span = place + segment.last  # its last operand, counted from its first block on
        blocks = span[block_bits - operand_shift :]
        first = Signal(32)
        last = Signal(33)
        end = Signal(block_bits - beat_bits)  # the last beat's place in its block
        left = Signal(len(blocks))  # blocks after the present one
        final = Signal()  # no block is left
        full = config.max_burst_beats - 1  # the last place in a block
        m.d.comb += [
            self.o.payload.addr.eq(first[beat_bits:] << beat_bits),
            self.o.payload.length.eq((Mux(final, end, full) - first[beat_bits:block_bits])[: len(end)]),
            self.o.payload.first.eq(first),
            self.o.payload.last.eq(Mux(final, last, first | ((1 << block_bits) - 1))),
            self.idle.eq(~self.i.valid & ~skid.o.valid & ~self.o.valid),
            skid.o.ready.eq(~self.o.valid | (self.o.ready & final)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                self.o.valid.eq(~final), first.eq((first[block_bits:] + 1) << block_bits),
                left.eq(left - 1), final.eq(left == 1),
            ]  # fmt: skip
        with m.If(skid.o.valid & skid.o.ready):
            m.d.sync += [
                self.o.valid.eq(1), first.eq(dram),
                last.eq(dram + Cat(Const(config.operand_bytes - 1, operand_shift), segment.last)),
                end.eq(span[beat_bits - operand_shift :]), left.eq(blocks), final.eq(_single(place, segment.last)),
            ]  # fmt: skip
        return m


class Beats(wiring.Component):
    """The beats of segments in order.

    Parameters
    ----------
    config : Config
        decides the size of a beat
    most : int
        segments have at most 2^most operands

    Members
    -------
    i : In(stream of SegmentLayout)
        segments; their places in DRAM modulo a beat
    offsets : In(array of addresses)
        ``offsets[j]`` is j times the distance in the scratchpad between operands adjacent in DRAM; steady while not
        ``idle``
    o : Out(stream of BeatLayout(config))
        beats
    idle : Out(1)
        no segment is offered, and all beats of those taken from ``i`` have been taken from ``o``

    Timing
    ------
    At best one beat per cycle.
    """

    def __init__(self, config: Config, most: int):
        self._config = config
        self._segment = SegmentLayout(exact_log2(config.beat_bytes), pad_element_bits(config), most)
        super().__init__({
            "i": In(stream.Signature(self._segment)),
            "offsets": In(data.ArrayLayout(pad_element_bits(config), config.beat_elements + 1)),
            "o": Out(stream.Signature(BeatLayout(config))),
            "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        lanes = config.beat_elements
        element_bits = pad_element_bits(config)
        operand_shift = exact_log2(config.operand_bytes)
        m.submodules.skid = skid = Skid(self._segment)
        wiring.connect(m, wiring.flipped(self.i), skid.i)
        segment = skid.o.payload
        skipped = segment.place.dram[operand_shift:]  # operands of the first beat before the segment
        span = skipped + segment.last  # its last operand, counted from its first beat on
        beats = span[exact_log2(lanes) :]

        base, first = Signal(element_bits), Signal(range(lanes))
        end = Signal(range(lanes))
        left = Signal(len(beats))  # beats after the present one
        final = Signal()  # no beat is left, so that lanes go up to end
        m.d.comb += [
            self.o.payload.first.eq(first),
            *(self.o.payload.addr[j].eq(base + self.offsets[j]) for j in range(lanes)),
            *(self.o.payload.mask[j].eq((j >= first) & (~final | (j <= end if j else 1))) for j in range(lanes)),
            self.idle.eq(~self.i.valid & ~skid.o.valid & ~self.o.valid),
            skid.o.ready.eq(~self.o.valid | (self.o.ready & final)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                self.o.valid.eq(~final),
                base.eq(base + self.offsets[lanes]),
                left.eq(left - 1),
                final.eq(left == 1),
                first.eq(0),
            ]
        with m.If(skid.o.valid & skid.o.ready):
            m.d.sync += [
                self.o.valid.eq(1),
                base.eq(segment.place.sp - self.offsets[skipped]),
                left.eq(beats),
                final.eq(_single(skipped, segment.last)),
                first.eq(skipped),
                end.eq(span),
            ]
        return m
