"""Memory of the sums of a layer's results, and the multiplier through which they are read."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.descriptors import DRAIN
from ...spec.numerics import operand_max
from ..lib.delay import delayed
from ..lib.interfaces import descriptor_layout

__all__ = ["N_WINDOWS", "PartLayout", "TermLayout", "WindowSums", "tile_width"]

N_WINDOWS = 4
"""Sums of each filter: two rows of two windows."""


def tile_width(config: Config) -> int:
    """Width of the sum of all results of a filter in a tile."""
    return (config.acc_depth * operand_max(config.operand_width)).bit_length() + 1


def PartLayout(config: Config) -> data.StructLayout:
    """Results of one of the groups in which a vector's lanes leave the epilogue; all of them if that isn't folded.

    ``mask`` has the lanes that there are, ``final`` is 1 in the vector's last group.
    """
    width = min(config.epilogue_width, config.cols)
    return data.StructLayout({
        "values": data.ArrayLayout(signed(config.operand_width), width), "mask": width,
        "group": range(config.folds(config.cols)), "final": 1,
    })  # fmt: skip


def TermLayout(config: Config) -> data.StructLayout:
    """A term, with ``valid``: sum number ``at`` grows by ``value``, or becomes it if ``fresh``."""
    return data.StructLayout({
        "valid": 1, "at": range(N_WINDOWS * config.n_filters), "value": signed(tile_width(config)), "fresh": 1,
    })  # fmt: skip


class WindowSums(wiring.Component):
    """``N_WINDOWS`` sums for each of ``n_filters`` filters, ``[filter][window]``.

    Members
    -------
    term : In(TermLayout(config))
        a term to add, one a cycle; none while sums are read
    d : In(descriptor_layout(DRAIN))
        the descriptor; stands still while sums are read
    start : In(1)
        read ``d.n_out`` sums from ``d.at`` on
    o : Out(stream.Signature(signed(config.acc_width)))
        each sum times ``d.mantissa``
    next_valid : Out(1)
        ``o.valid`` of the next cycle

    Attributes
    ----------
    ADD_LATENCY
        cycles until a term is in memory; until then its sum must be neither in another term nor read

    Timing
    ------
    A term a cycle; a sum follows ``READ_LATENCY`` cycles after its address, one a cycle.
    """

    ADD_LATENCY = 4
    READ_LATENCY = 4

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "term": In(TermLayout(config)),
            "d": In(descriptor_layout(DRAIN)), "start": In(1), "o": Out(stream.Signature(signed(config.acc_width))),
            "next_valid": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config, d = self._config, self.d
        largest = config.max_average_taps * operand_max(config.operand_width)
        number = signed(largest.bit_length() + 1)
        m.submodules.memory = memory = Memory(shape=number, depth=N_WINDOWS * config.n_filters, init=[])
        write, read = memory.write_port(), memory.read_port()
        reading, moving = Signal(), Signal()
        at = Signal(range(N_WINDOWS * config.n_filters))
        left = Signal.like(d.n_out)
        with m.If(self.start):
            m.d.sync += [reading.eq(1), at.eq(d.at), left.eq(d.n_out)]
        with m.Elif(reading & moving):
            m.d.sync += [reading.eq(left != 1), at.eq(at + 1), left.eq(left - 1)]

        s2_word = Signal(number, reset_less=True)
        m.d.comb += [
            moving.eq(~self.o.valid | self.o.ready),
            read.addr.eq(Mux(reading, at, self.term.at)),
            read.en.eq(moving),
        ]
        with m.If(moving):
            m.d.sync += s2_word.eq(read.data)
        self._add(m, write, s2_word)
        comes = delayed(m, reading, self.READ_LATENCY - 1, moving)
        m.d.comb += [
            self.next_valid.eq(~moving | comes),
            self.o.valid.eq(delayed(m, comes, 1, moving)),
            self.o.payload.eq(self._product(m, s2_word, moving)),
        ]
        return m

    def _add(self, m, write, s2_word):
        """Add terms to their sums; while nothing is read, the pipeline always moves."""
        s2_term = Signal(TermLayout(self._config))
        m.d.comb += s2_term.eq(delayed(m, self.term, 2))
        s3_sum = Signal.like(s2_word, reset_less=True)
        m.d.sync += s3_sum.eq(Mux(s2_term.fresh, 0, s2_word) + s2_term.value)
        m.d.comb += [
            write.en.eq(delayed(m, s2_term.valid, 1)),
            write.addr.eq(delayed(m, s2_term.at, 1)),
            write.data.eq(s3_sum),
        ]

    def _product(self, m, s2_word, moving):
        """Multiply two halves by the mantissa, then join the products."""
        width = len(self.d.mantissa)
        low = Signal(len(s2_word[:width]) + width, reset_less=True)
        high = Signal(signed(len(s2_word)), reset_less=True)
        product = Signal(signed(self._config.acc_width), reset_less=True)
        with m.If(moving):
            m.d.sync += [
                low.eq(s2_word[:width] * self.d.mantissa),
                high.eq(s2_word[width:].as_signed() * self.d.mantissa),
                product.eq(Cat(low[:width], high + low[width:])),
            ]
        return product
