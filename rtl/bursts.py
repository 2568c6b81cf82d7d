"""From descriptors to memory traffic: segments, their bursts on the DRAM side, their beats on the scratchpad side."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from ..spec.descriptors import FILL, Bits
from .interfaces import descriptor_layout, descriptor_stream
from .skid import Skid

__all__ = ["BeatLayout", "BeatWalk", "BurstLayout", "BurstWalk", "Segments", "pad_element_bits"]

_LENGTH = descriptor_layout(FILL)["length"].shape

BurstLayout = data.StructLayout({"addr": 32, "length": 8, "first": 32, "end": 33})
"""A burst: address of its first beat and beats - 1; first byte wanted and the one after the last."""


def BeatLayout(config: Config) -> data.StructLayout:
    """A beat as scratchpad lanes: lane j is operand j of the beat.

    ``addr``: the lanes' element addresses within a half; ``mask``: those that belong to the segment;
    ``first``: the first of them if the beat begins a segment.
    """
    lanes = config.beat_elements
    return data.StructLayout({
        "addr": data.ArrayLayout(pad_element_bits(config), lanes), "mask": lanes, "first": range(lanes),
    })  # fmt: skip


def pad_element_bits(config: Config) -> int:
    """Bits that number the operands in half of any of the scratchpads."""
    return (max(config.a_elements, config.b_elements, config.c_elements) - 1).bit_length()


class Segments(wiring.Component):
    """The segments of a FILL or STORE descriptor, outermost loop slowest, one per cycle at best.

    ``o``: where a segment begins in DRAM and scratchpad (modulo the widths asked for) and its length,
    never 0. The next descriptor is taken when the last segment has been.
    """

    def __init__(self, bits: tuple[Bits, ...], dram_bits: int, sp_bits: int):
        self._place = data.StructLayout({"dram": dram_bits, "sp": sp_bits})
        super().__init__({
            "i": In(descriptor_stream(bits)),
            "o": Out(stream.Signature(data.StructLayout({"place": self._place, "length": _LENGTH}))),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        d = self.i.payload
        levels = range(sum(name in ("n0", "n1", "n2") for name, _ in d.shape()))
        turns = [Signal.like(d[f"n{level}"], name=f"turns{level}") for level in levels]
        left = [Signal.like(d[f"n{level}"], name=f"left{level}") for level in levels]
        stride = [Signal(self._place, name=f"stride{level}") for level in levels]
        start = [Signal(self._place, name=f"start{level}") for level in levels]  # of the level's present turn
        origin, by, target = (Signal(self._place, name=name) for name in ("origin", "by", "target"))
        more, several = Signal(len(levels)), Signal(len(levels))  # turns left, turns altogether
        m.d.comb += [
            target.dram.eq(origin.dram + by.dram),
            target.sp.eq(origin.sp + by.sp),
            self.i.ready.eq(~self.o.valid),
            self.o.payload.place.eq(start[-1]),
        ]
        taken = self.o.valid & self.o.ready
        with m.If(taken):
            m.d.sync += self.o.valid.eq(more.any())
        for level in levels:
            inner = levels[level + 1 :]
            with m.If(more[level] & ~more[level + 1 :].any()):
                m.d.comb += [origin.eq(start[level]), by.eq(stride[level])]
                with m.If(taken):
                    m.d.sync += [left[level].eq(left[level] - 1), more[level].eq(left[level] != 1)]
                    m.d.sync += [(left[i].eq(turns[i]), more[i].eq(several[i])) for i in inner]
                    m.d.sync += [start[i].eq(target) for i in (level, *inner)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                self.o.valid.eq(~Cat(d.length == 0, *(d[f"n{level}"] == 0 for level in levels)).any()),
                self.o.payload.length.eq(d.length),
            ]
            for level in levels:
                m.d.sync += [
                    turns[level].eq(d[f"n{level}"] - 1),
                    left[level].eq(d[f"n{level}"] - 1),
                    more[level].eq(d[f"n{level}"] != 1),
                    several[level].eq(d[f"n{level}"] != 1),
                    stride[level].dram.eq(d[f"d{level}"]),
                    stride[level].sp.eq(d[f"s{level}"]),
                    start[level].dram.eq(d.dram),
                    start[level].sp.eq(d.sp),
                ]
        return m


class BurstWalk(wiring.Component):
    """The bursts of a descriptor in order, one per cycle at best, each within its aligned ``max_burst_beats``.

    ``idle``: all bursts of the descriptors taken from ``i`` have been taken from ``o``.
    """

    def __init__(self, config: Config, bits: tuple[Bits, ...]):
        self._config = config
        self._bits = bits
        super().__init__({
            "i": In(descriptor_stream(bits)), "o": Out(stream.Signature(BurstLayout)), "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.segments = segments = Segments(self._bits, 32, 0)
        m.submodules.skid = skid = Skid(segments.o.payload.shape())
        wiring.connect(m, wiring.flipped(self.i), segments.i)
        wiring.connect(m, segments.o, skid.i)
        segment = skid.o.payload

        # The segment whose bursts are being offered: bytes first..end - 1.
        operand_shift = (config.operand_bytes - 1).bit_length()
        beat_bits = (config.beat_bytes - 1).bit_length()
        first, end = Signal(32), Signal(33)
        left = Signal(range((1 << _LENGTH.width) // config.beat_elements + 2))  # beats
        beats = Signal(range(config.max_burst_beats + 1))
        room = Signal.like(beats)  # beats to where the next burst must begin
        final = Signal()  # whether there is room for what is left
        after = Signal(33)  # first byte of the beat behind the burst
        m.d.comb += [
            beats.eq(Mux(final, left, room)),
            after.eq((first[beat_bits:] + beats) << beat_bits),
            self.o.payload.addr.eq(first[beat_bits:] << beat_bits),
            self.o.payload.length.eq(beats - 1),
            self.o.payload.first.eq(first),
            self.o.payload.end.eq(Mux(final, end, after)),
            self.idle.eq(~segments.o.valid & ~skid.o.valid & ~self.o.valid),
            skid.o.ready.eq(~self.o.valid | (self.o.ready & final)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                self.o.valid.eq(~final), first.eq(after), left.eq(left - room), room.eq(config.max_burst_beats),
                final.eq(left <= room + config.max_burst_beats),
            ]  # fmt: skip
        with m.If(skid.o.valid & skid.o.ready):
            span = segment.place.dram[operand_shift:beat_bits] + segment.length + (config.beat_elements - 1)
            beats_new = span >> (beat_bits - operand_shift)
            page = segment.place.dram[beat_bits:][: (config.max_burst_beats - 1).bit_length()]
            m.d.sync += [
                self.o.valid.eq(1),
                first.eq(segment.place.dram),
                end.eq(segment.place.dram + (segment.length << operand_shift)),
                left.eq(beats_new), room.eq(config.max_burst_beats - page),
                final.eq(beats_new + page <= config.max_burst_beats),
            ]  # fmt: skip
        return m


class BeatWalk(wiring.Component):
    """The beats of a descriptor in order, one per cycle at best.

    ``offsets[j]``, steady while not ``idle``: j times the distance in the scratchpad between operands
    adjacent in DRAM. ``idle``: all beats of the descriptors taken from ``i`` have been taken from ``o``.
    """

    def __init__(self, config: Config, bits: tuple[Bits, ...]):
        self._config = config
        self._bits = bits
        super().__init__({
            "i": In(descriptor_stream(bits)),
            "offsets": In(data.ArrayLayout(pad_element_bits(config), config.beat_elements + 1)),
            "o": Out(stream.Signature(BeatLayout(config))),
            "idle": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        lanes = config.beat_elements
        element_bits = pad_element_bits(config)
        operand_shift = (config.operand_bytes - 1).bit_length()
        m.submodules.segments = segments = Segments(self._bits, (config.beat_bytes - 1).bit_length(), element_bits)
        m.submodules.skid = skid = Skid(segments.o.payload.shape())
        wiring.connect(m, wiring.flipped(self.i), segments.i)
        wiring.connect(m, segments.o, skid.i)
        segment = skid.o.payload
        skipped = segment.place.dram[operand_shift:]  # operands of the first beat before the segment

        base, first = Signal(element_bits), Signal(range(lanes))
        left = Signal(_LENGTH.width + 1)  # operands to come, counted from the present beat's first lane
        final = Signal()  # whether the present beat holds all of them
        m.d.comb += [
            self.o.payload.first.eq(first),
            *(self.o.payload.addr[j].eq(base + self.offsets[j]) for j in range(lanes)),
            *(self.o.payload.mask[j].eq((j >= first) & (j < left)) for j in range(lanes)),
            self.idle.eq(~segments.o.valid & ~skid.o.valid & ~self.o.valid),
            skid.o.ready.eq(~self.o.valid | (self.o.ready & final)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                self.o.valid.eq(~final),
                base.eq(base + self.offsets[lanes]),
                left.eq(left - lanes),
                final.eq(left <= 2 * lanes),
                first.eq(0),
            ]
        with m.If(skid.o.valid & skid.o.ready):
            m.d.sync += [
                self.o.valid.eq(1),
                base.eq(segment.place.sp - self.offsets[skipped]),
                left.eq(segment.length + skipped),
                final.eq(segment.length + skipped <= lanes),
                first.eq(skipped),
            ]
        return m
