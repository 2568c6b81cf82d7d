"""Chunks: the pieces in which an update passes through the accelerator."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..spec.config import Config

__all__ = ["Chunks", "beats_less_one", "chunk_weights"]


def chunk_weights(config: Config) -> int:
    """Weights in a full chunk: 32 beats of momentum."""
    return config.port_width


def beats_less_one(config: Config, weights, element_bytes: int):
    """Beats that ``weights`` elements of an array fill (beginning with a whole beat), less one."""
    return (weights * element_bytes - 1)[(config.beat_bytes - 1).bit_length() :]


class Chunks(wiring.Component):
    """Counts off ``count`` weights: ``size`` of the present chunk while ``valid``, the next after ``step``."""

    def __init__(self, config: Config):
        self._full = chunk_weights(config)
        super().__init__({
            "load": In(1), "count": In(32), "step": In(1),
            "valid": Out(1), "last": Out(1), "size": Out(range(self._full + 1)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        shift = exact_log2(self._full)
        most = self.count - 1  # number of the last weight: whole chunks before its own, and those of that before it
        left = Signal(len(self.count) - shift)
        rest = Signal(range(1, self._full + 1))
        m.d.comb += self.size.eq(Mux(self.last, rest, self._full))
        with m.If(self.load):
            m.d.sync += [
                self.valid.eq(self.count != 0), left.eq(most[shift:]), self.last.eq(self.count <= self._full),
                rest.eq(most[:shift] + 1),
            ]  # fmt: skip
        with m.Elif(self.step):
            m.d.sync += [self.valid.eq(~self.last), left.eq(left - 1), self.last.eq(left == 1)]
        return m
