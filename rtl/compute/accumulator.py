"""Two halves of psum memory: the array adds to one while the drain reads the other."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.block_memory import BlockMemory
from ..lib.delay import delayed
from ..lib.interfaces import AccRead

__all__ = ["Accumulator", "SumLayout"]

SumLayout = data.StructLayout({"valid": 1, "half": 1, "overwrite": 1, "end_sweep": 1, "full": 1})
"""Use of a row of psums: it is added to the current word of ``half`` (``overwrite``: it replaces the word), then the
next word is current (``end_sweep``: word 0). ``full``: it is the half's last row.
"""


class Accumulator(wiring.Component):
    """Adds rows of ``cols`` psums to consecutive words of one half while the other half is read.

    The owner must not read the half being added to. A word may be added to again ``latency`` cycles after the last
    time: the array's feeder leaves as much between two passes, whose vectors come without a pause.

    Members
    -------
    tag : In(SumLayout)
        use of a row, a cycle before its ``psum``
    psum : In(data.ArrayLayout(signed(config.psum_width), config.cols))
        a row of psums
    read : In(AccRead(config))
        the reader's port
    full : Out(1)
        a half is complete; from then on ``read`` sees all of its sums
    reading : Out(1)
        a word is asked for, or on its way

    Timing
    ------
    ``full`` comes ``latency`` cycles after the last row; a row and a word read each cycle.
    """

    latency = 5

    def __init__(self, config: Config):
        super().__init__({
            "tag": In(SumLayout), "psum": In(data.ArrayLayout(signed(config.psum_width), config.cols)),
            "read": In(AccRead(config)), "full": Out(1), "reading": Out(1),
        })  # fmt: skip
        self.config = config

    def elaborate(self, platform):
        m = Module()
        word = data.ArrayLayout(signed(self.config.acc_width), self.config.cols)
        # Stage 0 reads, stage 2 chooses a half's word or 0, stage 3 adds, stage 4 writes. Memories have output
        # registers, which adding and reading share. Memory blocks have such registers of their own; a read without
        # them takes most of a cycle.
        s0_address = Signal(range(self.config.acc_depth))
        s0_tag, s1_tag, s2_tag, s3_tag, s4_tag = (Signal(SumLayout, name=f"s{stage}_tag") for stage in range(5))
        s3_old, s4_sum = (Signal(word, name=name, reset_less=True) for name in ("s3_old", "s4_sum"))
        s3_psum = data.View(self.psum.shape(), delayed(m, self.psum.as_value(), 3, reset=False))
        s4_address = delayed(m, s0_address, 4)
        m.d.sync += [
            s0_tag.eq(self.tag), s1_tag.eq(s0_tag), s2_tag.eq(s1_tag), s3_tag.eq(s2_tag), s4_tag.eq(s3_tag),
            self.full.eq(s4_tag.valid & s4_tag.full),
        ]  # fmt: skip
        with m.If(s0_tag.valid):
            m.d.sync += s0_address.eq(s0_address + 1)
            with m.If(s0_tag.end_sweep):
                m.d.sync += s0_address.eq(0)

        words, s2_words = [], []
        asked = delayed(m, self.read.valid, 1, self.read.en)
        for half in range(2):
            m.submodules[f"half{half}"] = memory = BlockMemory(word, self.config.acc_depth)
            adding, meant = Signal(name=f"adding{half}"), Signal(name=f"meant{half}")
            m.d.sync += [
                adding.eq(self.tag.valid & (self.tag.half == half)),
                meant.eq((s1_tag.half == half) & ~s1_tag.overwrite),
            ]  # fmt: skip
            moves = delayed(m, adding, 1) | self.read.en
            words.append(delayed(m, memory.r_data.as_value(), 1, moves, reset=False))
            s2_words.append(Mux(meant, words[half], 0))
            m.d.comb += [
                memory.r_addr.eq(self.read.addr),
                memory.r_en.eq(adding | (self.read.en & self.read.valid & (self.read.half == half))),
                memory.w_addr.eq(s4_address),
                memory.w_data.eq(s4_sum),
                memory.w_en.eq(s4_tag.valid & (s4_tag.half == half)),
            ]
            with m.If(adding):
                m.d.comb += memory.r_addr.eq(s0_address)

        m.d.comb += [
            *(self.read.data[half].eq(word) for half, word in enumerate(words)),
            self.read.data_half.eq(delayed(m, self.read.half, 2, self.read.en)),
            self.reading.eq(self.read.valid | asked),
        ]  # fmt: skip
        m.d.sync += s3_old.eq(s2_words[0] | s2_words[1])
        m.d.sync += [s4_sum[col].eq(s3_old[col] + s3_psum[col]) for col in range(self.config.cols)]
        return m
