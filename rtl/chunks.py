"""Chunks: the pieces in which an update passes through the accelerator."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

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
        left = Signal.like(self.count)
        m.d.comb += [
            self.valid.eq(left != 0),
            self.last.eq(left <= self._full),
            self.size.eq(Mux(self.last, left, self._full)),
        ]
        with m.If(self.load):
            m.d.sync += left.eq(self.count)
        with m.Elif(self.step):
            m.d.sync += left.eq(left - self.size)
        return m
