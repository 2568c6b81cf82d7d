"""The segments of a descriptor: loops over places in DRAM and in a scratchpad."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.microcode.descriptors import FILL, Bits
from ..lib.delay import delayed
from ..lib.interfaces import descriptor_layout, descriptor_stream

__all__ = ["SegmentLayout", "Segments", "nonempty"]

LENGTH_BITS = descriptor_layout(FILL)["length"].width


def SegmentLayout(dram_bits: int, sp_bits: int, most_bits: int = LENGTH_BITS) -> data.StructLayout:
    """A segment: its place in DRAM and scratchpad, and its number of operands - 1."""
    return data.StructLayout({"place": data.StructLayout({"dram": dram_bits, "sp": sp_bits}), "last": most_bits})


def nonempty(d, most_bits: int = LENGTH_BITS):
    """1 if descriptor ``d`` has segments: no length or number of turns is 0; they are at most 2^most_bits."""
    counts = [d[name][: most_bits + 1] for name in ("length", "n0", "n1", "n2") if name in d.shape().members]
    return Cat(count != 0 for count in counts).all()


class Segments(wiring.Component):
    """The segments of a FILL or STORE descriptor, in nested loops of which the outermost is the slowest.

    Parameters
    ----------
    bits : tuple of Bits
        layout of the descriptors
    dram_bits, sp_bits : int
        bits of the places in DRAM and scratchpad, which are modulo these widths
    most_bits : int
        lengths and turns are at most 2^most_bits

    Members
    -------
    i : In(descriptor_stream(bits))
        descriptors; the next one is taken when the last segment has been
    o : Out(stream of {place, last})
        a segment's place in DRAM and scratchpad, and its number of operands - 1
    last : Out(1)
        it is the descriptor's last segment

    Timing
    ------
    At best one segment per cycle.
    """

    def __init__(self, bits: tuple[Bits, ...], dram_bits: int, sp_bits: int, most_bits: int = LENGTH_BITS):
        segment = SegmentLayout(dram_bits, sp_bits, most_bits)
        self._place, self._most_bits = segment["place"].shape, most_bits
        super().__init__({"i": In(descriptor_stream(bits)), "o": Out(stream.Signature(segment)), "last": Out(1)})

    def elaborate(self, platform):
        m = Module()
        d = self.i.payload
        levels = range(sum(name in ("n0", "n1", "n2") for name, _ in d.shape()))
        n = [d[f"n{level}"][: self._most_bits + 1] for level in levels]
        # All turns of a level, and those left, this one included: so they are loaded without being computed.
        turns = [Signal(len(count), name=f"turns{level}", reset_less=True) for level, count in enumerate(n)]
        left = [Signal(len(count), name=f"left{level}", reset_less=True) for level, count in enumerate(n)]
        # By level. several: it has more than one turn; double: just two; more: a turn is left; nearly: just one is.
        # When this segment is taken, steps: it steps; anew: a level outside it steps; turning: either.
        several, double, more, nearly, steps, anew, turning = (
            Signal(len(levels), name=name, reset_less=True)
            for name in ("several", "double", "more", "nearly", "steps", "anew", "turning")
        )
        free, taken = ~self.o.valid, self.o.ready  # while free, nothing else matters
        m.d.comb += [self.i.ready.eq(free), self.last.eq(~steps.any())]
        following = Signal(len(levels))  # more, after a step
        with m.If(taken):
            m.d.sync += [
                self.o.valid.eq(steps.any()),
                more.eq(following),
                *self._steps(following, steps, anew, turning),
            ]
        for level in levels:
            m.d.comb += following[level].eq(
                Mux(anew[level], several[level], Mux(steps[level], ~nearly[level], more[level]))
            )  # fmt: skip
            with m.If(taken & turning[level]):
                m.d.sync += [
                    left[level].eq(Mux(anew[level], turns[level], left[level] - 1)),
                    nearly[level].eq(Mux(anew[level], double[level], left[level] == 3)),
                ]
        with m.If(free):  # these hundreds of registers load even without a descriptor
            ones = Cat(count == 1 for count in n)
            twos = Cat(count == 2 for count in n)
            m.d.sync += [
                self.o.valid.eq(self.i.valid & nonempty(d, self._most_bits)), several.eq(~ones), more.eq(~ones),
                double.eq(twos), nearly.eq(twos), *self._steps(~ones, steps, anew, turning),
            ]  # fmt: skip
            for level, count in enumerate(n):
                m.d.sync += [turns[level].eq(count), left[level].eq(count)]
        m.d.comb += self.o.payload.last.eq(delayed(m, (d.length - 1)[: self._most_bits], 1, free, reset=False))
        self._places(m, levels, steps, turning, free, taken)
        return m

    def _steps(self, more, steps, anew, turning):
        """Step the innermost of the levels with ``more`` turns; those inside it begin anew."""
        for level in range(len(more)):
            inside = more[level + 1 :].any()
            outside = more[:level].any()
            yield steps[level].eq(more[level] & ~inside)
            yield anew[level].eq(outside & ~more[level] & ~inside)
            yield turning[level].eq((outside | more[level]) & ~inside)

    def _places(self, m, levels, steps, turning, free, taken):
        """Compute where segments begin; the operands of the sum are chosen a cycle before it."""
        d, here = self.i.payload, self.o.payload.place
        stride = [Signal(self._place, name=f"stride{level}", reset_less=True) for level in levels]
        # Where the present turn of each level begins.
        start = [Signal(self._place, name=f"start{level}", reset_less=True) for level in levels[:-1]]
        origin, by = (Signal(self._place, name=name, reset_less=True) for name in ("origin", "by"))
        outer, along = Signal(self._place), Signal(self._place)
        begins = Signal(len(levels), reset_less=True)  # the present turn begins here
        from_here = Signal()
        m.d.comb += [here.dram.eq(origin.dram + by.dram), here.sp.eq(origin.sp + by.sp)]
        with m.If(taken):
            m.d.sync += [origin.eq(Mux(from_here, here, outer)), by.eq(along), begins.eq(turning)]
        for level, step in zip(levels, steps, strict=True):
            with m.If(step):
                m.d.comb += [from_here.eq(begins[level]), along.eq(stride[level])]
            if level < len(start):
                with m.If(step):
                    m.d.comb += outer.eq(start[level])
                with m.If(taken & begins[level]):
                    m.d.sync += start[level].eq(here)
        with m.If(free):
            m.d.sync += [origin.dram.eq(d.dram), origin.sp.eq(d.sp), by.eq(0), begins.eq(-1)]
            for level in levels:
                m.d.sync += [stride[level].dram.eq(d[f"d{level}"]), stride[level].sp.eq(d[f"s{level}"])]
