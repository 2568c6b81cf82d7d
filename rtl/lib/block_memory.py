"""A memory that fits FPGA memory blocks: one reader, one writer, collisions undefined."""

from collections.abc import Sequence

from amaranth import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, WritePort
from amaranth.lib.wiring import In, Out

__all__ = ["BlockMemory"]


class BlockMemory(wiring.Component):
    """A memory with one read port and one write port.

    Tools put it into memory blocks if it is large enough for one, or if ``block`` says so. A word that is read and
    written in the same cycle is read as an undefined value; readers must ignore it. Defining it would take a comparison
    and a bypass beside each memory block. In Amaranth's simulator, and on platforms with ``spoils_collisions``, such a
    word is inverted, so that tests notice a reader that uses it.

    Parameters
    ----------
    shape, depth
        shape and number of the words
    granularity
        size of the parts of a word that are written separately; without it, whole words are
    init
        values of the first words at power-up
    block
        ask for memory blocks whatever the size

    Members
    -------
    r_en, r_addr : In
        read the word at ``r_addr``
    r_data : Out(shape)
        the word read last
    w_en : In(writing.members['en'].shape)
        write; one bit for each part
    w_addr, w_data : In
        address and value of the word written

    Timing
    ------
    ``r_data`` follows one cycle after ``r_en`` and stays until one cycle after the next.
    """

    def __init__(
        self, shape, depth: int, granularity: int | None = None, init: Sequence = (), block: bool = False
    ):  # fmt: skip
        self._shape, self._depth, self._granularity, self._init = shape, depth, granularity, init
        self._attrs = {"no_rw_check": 1, **({"ram_style": "block"} if block else {})}
        bits = (depth - 1).bit_length()
        writing = WritePort.Signature(addr_width=bits, shape=shape, granularity=granularity)
        super().__init__({
            "r_en": In(1), "r_addr": In(bits), "r_data": Out(shape),
            "w_en": In(writing.members["en"].shape), "w_addr": In(bits), "w_data": In(shape),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(
            shape=self._shape, depth=self._depth, init=self._init, attrs=self._attrs
        )  # fmt: skip
        read, write = memory.read_port(), memory.write_port(granularity=self._granularity)
        m.d.comb += [
            read.en.eq(self.r_en), read.addr.eq(self.r_addr), self.r_data.eq(read.data),
            write.en.eq(self.w_en), write.addr.eq(self.w_addr), write.data.eq(self.w_data),
        ]  # fmt: skip
        if platform is None or getattr(platform, "spoils_collisions", False):
            spoilt = Signal()
            with m.If(self.r_en):
                m.d.sync += spoilt.eq(self.w_en.any() & (self.r_addr == self.w_addr))
            with m.If(spoilt):
                m.d.comb += Value.cast(self.r_data).eq(~Value.cast(read.data))
        return m
