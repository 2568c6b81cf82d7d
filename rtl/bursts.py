"""From descriptors to memory traffic: segments, their bursts on the DRAM side, their beats on the scratchpad side."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..spec.config import Config
from ..spec.descriptors import FILL, Bits
from .delay import delayed
from .interfaces import descriptor_layout, descriptor_stream
from .skid import Skid

__all__ = ["BeatLayout", "BeatWalk", "BurstLayout", "BurstWalk", "Segments", "pad_element_bits"]

_LENGTH = descriptor_layout(FILL)["length"].shape

BurstLayout = data.StructLayout({"addr": 32, "length": 8, "first": 32, "last": 33})
"""A burst: address of its first beat and beats - 1; the first byte wanted and the last."""


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

    ``o``: where a segment begins in DRAM and scratchpad (modulo the widths asked for) and its operands - 1.
    The next descriptor is taken when the last segment has been.
    """

    def __init__(self, bits: tuple[Bits, ...], dram_bits: int, sp_bits: int):
        self._place = data.StructLayout({"dram": dram_bits, "sp": sp_bits})
        super().__init__({
            "i": In(descriptor_stream(bits)),
            "o": Out(stream.Signature(data.StructLayout({"place": self._place, "last": _LENGTH}))),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        d = self.i.payload
        levels = range(sum(name in ("n0", "n1", "n2") for name, _ in d.shape()))
        # Turns of a level, altogether and left: this one counts, so that nothing is computed where they are loaded.
        turns = [Signal.like(d[f"n{level}"], name=f"turns{level}", reset_less=True) for level in levels]
        left = [Signal.like(d[f"n{level}"], name=f"left{level}", reset_less=True) for level in levels]
        # Whether a level has more than one turn, just two; whether another turn is left, just one; whether it is the
        # one that steps when this segment is taken.
        several, double, more, nearly, steps = (
            Signal(len(levels), name=name, reset_less=True) for name in ("several", "double", "more", "nearly", "steps")
        )
        free, taken = ~self.o.valid, self.o.valid & self.o.ready
        m.d.comb += self.i.ready.eq(free)
        following = Signal(len(levels))  # ``more`` behind a step
        with m.If(taken):
            m.d.sync += [self.o.valid.eq(steps.any()), more.eq(following), steps.eq(self._innermost(following))]
        for level in levels:
            anew = steps[:level].any()  # a level outside it steps
            m.d.comb += following[level].eq(
                Mux(anew, several[level], Mux(steps[level], ~nearly[level], more[level]))
            )  # fmt: skip
            with m.If(taken & steps[level]):
                m.d.sync += [left[level].eq(left[level] - 1), nearly[level].eq(left[level] == 3)]
            with m.If(taken & anew):
                m.d.sync += [left[level].eq(turns[level]), nearly[level].eq(double[level])]
        nonempty = ~Cat(d.length == 0, *(d[f"n{level}"] == 0 for level in levels)).any()
        with m.If(free):  # hundreds of registers, which needn't know whether there is a descriptor
            ones = Cat(d[f"n{level}"] == 1 for level in levels)
            twos = Cat(d[f"n{level}"] == 2 for level in levels)
            m.d.sync += [
                self.o.valid.eq(self.i.valid & nonempty), several.eq(~ones), more.eq(~ones), double.eq(twos),
                nearly.eq(twos), steps.eq(self._innermost(~ones)),
            ]  # fmt: skip
            for level in levels:
                m.d.sync += [
                    turns[level].eq(d[f"n{level}"]),
                    left[level].eq(d[f"n{level}"]),
                ]
        m.d.comb += self.o.payload.last.eq(delayed(m, d.length - 1, 1, free, reset=False))
        self._places(m, levels, steps, free, taken)
        return m

    def _innermost(self, levels):
        """Of the ``levels`` that are 1 the innermost alone."""
        return Cat(levels[level] & ~levels[level + 1 :].any() for level in range(len(levels)))

    def _places(self, m, levels, steps, free, taken):
        """Where segments begin: the operands of the sum are chosen a cycle before it."""
        d, here = self.i.payload, self.o.payload.place
        stride = [Signal(self._place, name=f"stride{level}", reset_less=True) for level in levels]
        # Of the level's present turn.
        start = [Signal(self._place, name=f"start{level}", reset_less=True) for level in levels[:-1]]
        origin, by = (Signal(self._place, name=name, reset_less=True) for name in ("origin", "by"))
        outer, along = Signal(self._place), Signal(self._place)
        begins = Signal(len(levels), reset_less=True)  # whether the present turn begins here, which is then its start
        from_here = Signal()
        m.d.comb += [here.dram.eq(origin.dram + by.dram), here.sp.eq(origin.sp + by.sp)]
        with m.If(taken):
            m.d.sync += [origin.eq(Mux(from_here, here, outer)), by.eq(along)]
        for level, step in zip(levels, steps, strict=True):
            with m.If(step):
                m.d.comb += [from_here.eq(begins[level]), along.eq(stride[level])]
                with m.If(taken):
                    m.d.sync += begins.eq(-1 << level)
            if level < len(start):
                with m.If(step):
                    m.d.comb += outer.eq(start[level])
                with m.If(taken & begins[level]):
                    m.d.sync += start[level].eq(here)
        with m.If(free):
            m.d.sync += [origin.dram.eq(d.dram), origin.sp.eq(d.sp), by.eq(0), begins.eq(-1)]
            for level in levels:
                m.d.sync += [stride[level].dram.eq(d[f"d{level}"]), stride[level].sp.eq(d[f"s{level}"])]


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
        segment, dram = skid.o.payload, skid.o.payload.place.dram

        # The segment whose bursts are being offered: bytes first..last, in blocks that a burst must stay in.
        operand_shift = exact_log2(config.operand_bytes)
        beat_bits = exact_log2(config.beat_bytes)
        block_bits = beat_bits + exact_log2(config.max_burst_beats)
        span = dram[operand_shift:block_bits] + segment.last  # its last operand, counted from its first block on
        blocks = span[block_bits - operand_shift :]
        first = Signal(32)
        last = Signal(33)
        end = Signal(block_bits - beat_bits)  # the last beat's place in its block
        left = Signal(len(blocks))  # blocks behind the present one
        final = Signal()  # whether there is none
        full = config.max_burst_beats - 1  # the last place in a block
        m.d.comb += [
            self.o.payload.addr.eq(first[beat_bits:] << beat_bits),
            self.o.payload.length.eq((Mux(final, end, full) - first[beat_bits:block_bits])[: len(end)]),
            self.o.payload.first.eq(first),
            self.o.payload.last.eq(Mux(final, last, first | ((1 << block_bits) - 1))),
            self.idle.eq(~segments.o.valid & ~skid.o.valid & ~self.o.valid),
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
                end.eq(span[beat_bits - operand_shift :]), left.eq(blocks), final.eq(blocks == 0),
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
        operand_shift = exact_log2(config.operand_bytes)
        m.submodules.segments = segments = Segments(self._bits, exact_log2(config.beat_bytes), element_bits)
        m.submodules.skid = skid = Skid(segments.o.payload.shape())
        wiring.connect(m, wiring.flipped(self.i), segments.i)
        wiring.connect(m, segments.o, skid.i)
        segment = skid.o.payload
        skipped = segment.place.dram[operand_shift:]  # operands of the first beat before the segment
        span = skipped + segment.last  # its last operand, counted from its first beat on
        beats = span[exact_log2(lanes) :]

        base, first = Signal(element_bits), Signal(range(lanes))
        end = Signal(range(lanes))
        left = Signal(len(beats))  # beats behind the present one
        final = Signal()  # whether there is none, so that lanes go up to end
        m.d.comb += [
            self.o.payload.first.eq(first),
            *(self.o.payload.addr[j].eq(base + self.offsets[j]) for j in range(lanes)),
            *(self.o.payload.mask[j].eq((j >= first) & (~final | (j <= end if j else 1))) for j in range(lanes)),
            self.idle.eq(~segments.o.valid & ~skid.o.valid & ~self.o.valid),
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
                final.eq(beats == 0),
                first.eq(skipped),
                end.eq(span),
            ]
        return m
