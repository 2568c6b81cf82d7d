"""The exact sums of batch norm, two for each channel, on chip."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..lib.block_memory import BlockMemory

__all__ = ["SUM_WIDTH", "NormSums", "SumsLayout"]

SUM_WIDTH = 64

SumsLayout = data.StructLayout({"first": signed(SUM_WIDTH), "second": signed(SUM_WIDTH)})
"""Sums of x and x * x, or of g and g * x."""


class NormSums(wiring.Component):
    """Adds up the partial sums that tiles have of each channel.

    Parameters
    ----------
    channels
        most channels

    Members
    -------
    i : In(stream.Signature)
        partial sums of a channel; with ``begins`` they take the place of its sums so far
    r_en, r_channel : In
        read a channel's sums, while ``i`` isn't valid and ``settled``
    sums : Out(SumsLayout)
        the sums read last
    settled : Out(1)
        all partial sums taken are added

    Raises
    ------
    ValueError : fewer than two channels

    Timing
    ------
    ``i`` is ready in two of three cycles at least, and in each one if its channels differ from one to the next.
    ``sums`` follows one cycle after ``r_en``.
    """

    def __init__(self, channels: int):
        if channels < 2:
            raise ValueError(f"channels must be at least 2, not {channels!r}")
        self._channels = channels
        bits = range(channels)
        partial = data.StructLayout({"channel": bits, "begins": 1, "sums": SumsLayout})
        super().__init__({
            "i": In(stream.Signature(partial)), "r_en": In(1), "r_channel": In(bits), "sums": Out(SumsLayout),
            "settled": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = BlockMemory(SumsLayout, self._channels, block=True)
        taken = Signal.like(self.i.payload)
        holds = Signal()  # ``taken`` is being added
        m.d.comb += [
            self.i.ready.eq(~(holds & (taken.channel == self.i.p.channel))), self.settled.eq(~holds),
            memory.r_en.eq(self.r_en | (self.i.valid & self.i.ready)),
            memory.r_addr.eq(Mux(self.r_en, self.r_channel, self.i.p.channel)),
            memory.w_en.eq(holds), memory.w_addr.eq(taken.channel), self.sums.eq(memory.r_data),
        ]  # fmt: skip
        m.d.sync += holds.eq(self.i.valid & self.i.ready)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += taken.eq(self.i.payload)
        for name in ("first", "second"):
            before = Mux(taken.begins, 0, memory.r_data[name])
            m.d.comb += memory.w_data[name].eq(before + taken.sums[name])
        return m
