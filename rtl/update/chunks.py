"""Chunks: the pieces in which an update passes through the accelerator."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...spec.config import Config
from ..dma.segments import SegmentLayout
from .arrays import MOMENT_BYTES

__all__ = ["Chunks", "beats_less_one", "chunk_segment", "chunk_weights", "operands_less_one"]


def chunk_weights(config: Config) -> int:
    """Weights in a full chunk: 32 beats of momentum."""
    return config.port_width


def chunk_segment(config: Config) -> data.StructLayout:
    """Layout of an array's part of a chunk, as a segment in memory."""
    most = chunk_weights(config) * MOMENT_BYTES // config.operand_bytes
    return SegmentLayout(32, 0, (most - 1).bit_length())


def operands_less_one(config: Config, end, element_bytes: int):
    """Number of operands, less one, in the room of elements 0..``end`` of an array."""
    operands = element_bytes // config.operand_bytes
    return Cat(Const(operands - 1, exact_log2(operands)), end)


def beats_less_one(config: Config, end, element_bytes: int):
    """Number of beats, less one, for elements 0..``end`` of an array that begins with a whole beat."""
    return (end * element_bytes)[(config.beat_bytes - 1).bit_length() :]


class Chunks(wiring.Component):
    """Divides ``count`` weights into chunks, one after the other.

    Members
    -------
    load : In(1)
        begin
    count : In(32)
        number of weights; stands since the cycle before ``load``
    step : In(1)
        go to the next chunk; every other cycle at most
    valid : Out(1)
        there is a chunk
    last : Out(1)
        it is the last one
    size, end : Out
        its weights, and ``size`` - 1
    rest_end : Out
        ``end`` of the last chunk

    Timing
    ------
    A chunk follows one cycle after ``load`` or ``step``.
    """

    def __init__(self, config: Config):
        self._full = chunk_weights(config)
        super().__init__({
            "load": In(1), "count": In(32), "step": In(1),
            "valid": Out(1), "last": Out(1), "size": Out(range(self._full + 1)), "end": Out(range(self._full)),
            "rest_end": Out(range(self._full)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        shift = exact_log2(self._full)
        most = self.count - 1  # the last weight's number: whole chunks before, and its place in its own
        high, whole = self.count[shift:], self.count[:shift] == 0  # from the count itself, for a short path
        left = Signal(len(self.count) - shift, reset_less=True)
        rest = Signal(range(1, self._full + 1), reset_less=True)
        some = Signal()  # there is a weight
        short = Signal()  # there is one chunk only
        double = Signal()  # there are two
        # ``step`` comes from far away: it moves the flags at once, the counter a cycle later.
        stepped = Signal()
        nearly = Signal()  # the next chunk is the last
        m.d.comb += [
            self.size.eq(Mux(self.last, rest, self._full)),
            self.end.eq(self.rest_end | (~self.last).replicate(shift)),
        ]  # fmt: skip
        m.d.sync += [
            stepped.eq(self.step & ~self.load),
            some.eq(self.count != 0), short.eq((high == 0) | ((high == 1) & whole)),
            double.eq(((high == 1) & ~whole) | ((high == 2) & whole)),
        ]  # fmt: skip
        with m.If(stepped):
            m.d.sync += [left.eq(left - 1), nearly.eq(left == 2)]
        with m.If(self.step):
            m.d.sync += [self.valid.eq(~self.last), self.last.eq(nearly)]
        with m.If(self.load):
            m.d.sync += [
                self.valid.eq(some), left.eq(most[shift:]), self.last.eq(short), nearly.eq(double),
                rest.eq(most[:shift] + 1), self.rest_end.eq(most[:shift]),
            ]  # fmt: skip
        return m
