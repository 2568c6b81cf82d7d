"""Chunks: the pieces in which an update passes through the accelerator."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...spec.config import Config

__all__ = ["Chunks", "beats_less_one", "chunk_weights"]


def chunk_weights(config: Config) -> int:
    """Weights in a full chunk: 32 beats of momentum."""
    return config.port_width


def beats_less_one(config: Config, end, element_bytes: int):
    """Beats that elements 0..``end`` of an array fill (beginning with a whole beat), less one."""
    return (end * element_bytes)[(config.beat_bytes - 1).bit_length() :]


class Chunks(wiring.Component):
    """Counts off ``count`` weights: ``size`` of the present chunk while ``valid``, the next after ``step``.

    ``count`` stands since the cycle before ``load``; there is a ``step`` in every other cycle at most. ``end``:
    ``size`` - 1; ``rest_end``: that of the last chunk.
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
        most = self.count - 1  # number of the last weight: whole chunks before its own, and those of that before it
        high, whole = self.count[shift:], self.count[:shift] == 0  # of the count itself, for a short path
        left = Signal(len(self.count) - shift, reset_less=True)
        rest = Signal(range(1, self._full + 1), reset_less=True)
        some = Signal()  # whether there is a weight
        short = Signal()  # whether there is but one chunk
        double = Signal()  # whether there are two
        # What waits for a step comes from afar: it moves the flags at once, the counter a cycle later.
        stepped = Signal()
        nearly = Signal()  # whether the next chunk is the last
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
