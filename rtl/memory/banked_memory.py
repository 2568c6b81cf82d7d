"""A memory of many words: banks as large as a memory block, each with a register after it.

Only the bank of the word is read, since reading takes power.
"""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..lib.block_memory import BlockMemory

__all__ = ["BankedMemory"]

_BANK_WORDS = 1024
"""Words of a memory block that is two bytes wide, on ECP5 (18 Kbit) and on 7 series (RAMB18): banks are blocks."""


class BankedMemory(wiring.Component):
    """A memory with a read port of two registers and a write port with byte enables.

    Tools put the second register into the memory blocks, as the choice among blocks comes after it.

    Parameters
    ----------
    width : int
        bits of a word, whole bytes
    depth : int
        words

    Members
    -------
    r_en, r_addr : In(1), In
        read a word
    move : In(1)
        the second register takes the word of the first
    r_data : Out(width)
        word of the last cycle with ``r_en`` before the last cycle with ``move``
    w_en, w_addr, w_data : In(width // 8), In, In(width)
        write bytes of a word

    Timing
    ------
    READ_LATENCY cycles, if ``move`` follows ``r_en``. A word is written a cycle after ``w_en``, when its block is
    known: a read in the cycle of ``w_en`` gives the old word, in the next cycle an undefined value, from then on the
    new word.
    """

    READ_LATENCY = 2

    def __init__(self, width: int, depth: int):
        self._depth = depth
        bits = ceil_log2(depth)
        super().__init__({
            "r_en": In(1), "move": In(1), "r_addr": In(bits), "r_data": Out(width),
            "w_en": In(width // 8), "w_addr": In(bits), "w_data": In(width),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        within = ceil_log2(_BANK_WORDS)
        read_bank, shown_bank = (
            Signal(range(max(2, -(-self._depth // _BANK_WORDS))), name=name) for name in ("read_bank", "shown_bank")
        )  # fmt: skip
        with m.If(self.r_en):
            m.d.sync += read_bank.eq(self.r_addr[within:])
        with m.If(self.move):
            m.d.sync += shown_bank.eq(read_bank)
        w_addr, w_data = Signal(within, reset_less=True), Signal.like(self.w_data, reset_less=True)
        m.d.sync += [w_addr.eq(self.w_addr), w_data.eq(self.w_data)]
        words = []
        for number, first in enumerate(range(0, self._depth, _BANK_WORDS)):
            bank = BlockMemory(len(self.r_data), min(_BANK_WORDS, self._depth - first), granularity=8)
            m.submodules[f"bank{number}"] = bank
            word = Signal.like(self.r_data, name=f"word{number}", reset_less=True)
            with m.If(self.move & (read_bank == number)):
                m.d.sync += word.eq(bank.r_data)
            w_en = Signal.like(self.w_en, name=f"w_en{number}")
            m.d.sync += w_en.eq(Mux(self.w_addr[within:] == number, self.w_en, 0))
            m.d.comb += [
                bank.r_en.eq(self.r_en & (self.r_addr[within:] == number)), bank.r_addr.eq(self.r_addr[:within]),
                bank.w_en.eq(w_en), bank.w_addr.eq(w_addr), bank.w_data.eq(w_data),
            ]  # fmt: skip
            words.append(word)
        m.d.comb += self.r_data.eq(Array(words)[shown_bank])
        return m
