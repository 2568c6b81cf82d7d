"""The maximum of a result tensor, for its shadow exponent."""

from amaranth import Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from .bit_length import BitLength
from .interfaces import ResultLayout

__all__ = ["Maximum"]


class Maximum(wiring.Component):
    """Gathers ``top`` = max bit length + exponent of the magnitudes seen since ``clear``.

    Parameters
    ----------
    config : Config
        decides how many tensors there are
    width
        bits of a magnitude
    limited
        add ``limit``

    Members
    -------
    clear : In(1)
        forget what was seen
    i : In(width)
        OR of any number of magnitudes, taken every cycle; 0 changes nothing
    id, exponent : In
        passed to ``result`` directly
    limit : In(signed(8))
        most that the bit length counts as; stands still; only with ``limited``
    result : Out(ResultLayout(config))
        the maximum, with ``id``

    Timing
    ------
    ``result`` holds everything taken up to ``LATENCY`` cycles ago.
    """

    LATENCY = 1 + BitLength.LATENCY

    def __init__(self, config: Config, width: int, limited: bool = False):
        self._limited = limited
        super().__init__({
            "clear": In(1), "i": In(width), "id": In(range(config.n_tensors)), "exponent": In(signed(10)),
            **({"limit": In(signed(8))} if limited else {}),
            "result": Out(ResultLayout(config)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        seen = Signal.like(self.i)
        length = BitLength(len(seen))
        m.submodules.length = ResetInserter(self.clear)(length)
        m.d.comb += length.i.eq(seen)
        m.d.sync += seen.eq(Mux(self.clear, 0, seen | self.i))
        m.d.comb += [
            self.result.id.eq(self.id),
            self.result.nonzero.eq(length.o != 0),
            self.result.top.eq(length.o + self.exponent),
        ]
        if self._limited:
            most = Signal.like(self.result.top)
            m.d.sync += most.eq(self.limit + self.exponent)
            with m.If(length.o > self.limit):
                m.d.comb += self.result.top.eq(most)
        return m
