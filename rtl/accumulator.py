"""Two halves of psum memory: one adds up what the array sends, the other is read."""

from amaranth import Module, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from .interfaces import AccRead

__all__ = ["Accumulator", "SumLayout"]

SumLayout = data.StructLayout({"valid": 1, "half": 1, "overwrite": 1, "end_sweep": 1, "full": 1})
"""What to do with a row of psums: add it to the current word of ``half`` (``overwrite``: replace the
word), then go to the next word (``end_sweep``: back to word 0). ``full``: this was the last one."""


class Accumulator(wiring.Component):
    """Adds rows of ``cols`` psums to consecutive words of one half while the other half is read.

    Timing: ``full`` follows a row with ``full`` by ``latency`` cycles; from then on ``read`` sees all
    sums. A word may be added to again ``latency`` cycles after the last time: the array's feeder leaves
    as much between two passes, whose vectors come without a pause. Reading must spare the half being
    added to.
    """

    latency = 3

    def __init__(self, config: Config):
        super().__init__({
            "tag": In(SumLayout), "psum": In(data.ArrayLayout(signed(config.psum_width), config.cols)),
            "read": In(AccRead(config)), "full": Out(1),
        })  # fmt: skip
        self.config = config

    def elaborate(self, platform):
        m = Module()
        word = data.ArrayLayout(signed(self.config.acc_width), self.config.cols)
        # Stage 0 reads, stage 1 adds, stage 2 writes.
        s0_address = Signal(range(self.config.acc_depth))
        s1_address, s2_address = (Signal.like(s0_address, reset_less=True) for _ in range(2))
        s1_tag, s2_tag = Signal(SumLayout), Signal(SumLayout)
        s1_psum = Signal.like(self.psum, reset_less=True)
        s2_sum = Signal(word, reset_less=True)
        m.d.sync += [
            s1_tag.eq(self.tag), s2_tag.eq(s1_tag), self.full.eq(s2_tag.valid & s2_tag.full),
            s1_address.eq(s0_address), s2_address.eq(s1_address), s1_psum.eq(self.psum),
        ]  # fmt: skip
        with m.If(self.tag.valid):
            m.d.sync += s0_address.eq(s0_address + 1)
            with m.If(self.tag.end_sweep):
                m.d.sync += s0_address.eq(0)

        words = []
        for half in range(2):
            m.submodules[f"half{half}"] = mem = memory.Memory(shape=word, depth=self.config.acc_depth, init=[])
            reader, writer = mem.read_port(), mem.write_port()
            words.append(reader.data)
            adding = Signal(name=f"adding{half}")
            m.d.comb += [
                adding.eq(self.tag.valid & (self.tag.half == half)),
                reader.addr.eq(self.read.addr),
                reader.en.eq(adding | (self.read.en & (self.read.half == half))),
                writer.addr.eq(s2_address),
                writer.data.eq(s2_sum),
                writer.en.eq(s2_tag.valid & (s2_tag.half == half)),
            ]
            with m.If(adding):
                m.d.comb += reader.addr.eq(s0_address)

        read_half = Signal()
        with m.If(self.read.en):
            m.d.sync += read_half.eq(self.read.half)
        m.d.comb += self.read.data.eq(words[0])
        with m.If(read_half):
            m.d.comb += self.read.data.eq(words[1])
        for col in range(self.config.cols):
            old = Signal(signed(self.config.acc_width), name=f"old{col}")
            with m.If(~s1_tag.overwrite):
                m.d.comb += old.eq(words[0][col])
                with m.If(s1_tag.half):
                    m.d.comb += old.eq(words[1][col])
            m.d.sync += s2_sum[col].eq(old + s1_psum[col])
        return m
