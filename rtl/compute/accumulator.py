"""Two halves of psum memory: the array adds to one while the drain reads the other."""

from itertools import pairwise

from amaranth import Cat, Module, Mux, Signal, signed
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
        use of a row, AHEAD cycles before its ``psum``
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

    AHEAD = 2  # cycles from a tag to its row
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
        # Stage 1 reads, stage 3 chooses a half's word or 0, stage 4 adds, stage 5 writes. Memories have output
        # registers, which adding and reading share. Memory blocks have such registers of their own; a read without
        # them takes most of a cycle. A half has dozens of blocks, so what they wait for are registers.
        s0_address = Signal(range(self.config.acc_depth))
        tags = [self.tag, *(Signal(SumLayout, name=f"s{stage}_tag") for stage in range(6))]
        s0_tag, _, s2_tag, _, _, s5_tag = tags[1:]
        s4_old, s5_sum = (Signal(word, name=name, reset_less=True) for name in ("s4_old", "s5_sum"))
        s4_psum = data.View(self.psum.shape(), delayed(m, self.psum.as_value(), 3, reset=False))
        s5_address = delayed(m, s0_address, 5)
        m.d.sync += [
            *(later.eq(tag) for tag, later in pairwise(tags)), self.full.eq(s5_tag.valid & s5_tag.full),
        ]  # fmt: skip
        with m.If(s0_tag.valid):
            m.d.sync += s0_address.eq(s0_address + 1)
            with m.If(s0_tag.end_sweep):
                m.d.sync += s0_address.eq(0)

        words, s3_words = [], []
        for half in range(2):
            m.submodules[f"half{half}"] = memory = BlockMemory(word, self.config.acc_depth)
            moves = self._read(m, memory, half, s0_tag, s0_address)
            words.append(delayed(m, memory.r_data.as_value(), 1, moves, reset=False))
            meant = delayed(m, (s2_tag.half == half) & ~s2_tag.overwrite, 1)
            s3_words.append(Mux(meant, words[half], 0))
            m.d.comb += [
                memory.w_addr.eq(s5_address), memory.w_data.eq(s5_sum),
                memory.w_en.eq(s5_tag.valid & (s5_tag.half == half)),
            ]  # fmt: skip

        on_its_way = [delayed(m, self.read.valid, cycles, self.read.en) for cycles in range(AccRead.LATENCY)]
        m.d.comb += [
            *(self.read.data[half].eq(word) for half, word in enumerate(words)),
            self.reading.eq(Cat(on_its_way).any()),
        ]  # fmt: skip
        m.d.sync += s4_old.eq(s3_words[0] | s3_words[1])
        m.d.sync += [s5_sum[col].eq(s4_old[col] + s4_psum[col]) for col in range(self.config.cols)]
        return m

    def _read(self, m, memory, half, s0_tag, s0_address):
        """Read words of a half for stage 1, or for the reader; when the word read moves on, from a register."""
        port = self.read
        adding, asked, meant, moves = (
            Signal(name=f"{name}{half}") for name in ("adding", "asked", "meant", "moves")
        )  # fmt: skip
        address = Signal.like(s0_address, name=f"address{half}", reset_less=True)
        m.d.comb += [
            adding.eq(s0_tag.valid & (s0_tag.half == half)), memory.r_addr.eq(address),
            meant.eq(Mux(port.en, port.valid & (port.half == half), asked)),
        ]  # fmt: skip
        m.d.sync += [
            asked.eq(meant), memory.r_en.eq(adding | (meant & port.next_en)),
            moves.eq(delayed(m, adding, 1) | port.next_en),
        ]  # fmt: skip
        with m.If(adding):
            m.d.sync += address.eq(s0_address)
        with m.Elif(port.en):
            m.d.sync += address.eq(port.addr)
        return moves
