"""The systolic array: rows of PEs share a stream operand, columns sum."""

from amaranth import Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.delay import delayed
from .pe import PE

__all__ = ["Array"]


class Array(wiring.Component):
    """``rows`` x ``cols`` weight-stationary PEs; a pipeline that never stalls.

    Row i sees its element of a vector i cycles after row 0, in all columns at once, so the psums of all columns leave
    in the same cycle. Stationary vectors are delayed alike, so a tile is loaded while the one before still goes down.

    Members
    -------
    stationary : In(vector)
        ``rows`` operands for shadow registers
    load : In(config.cols)
        columns whose shadow registers take ``stationary``
    stream : In(vector)
        a vector of ``rows`` operands
    swap : In(1)
        comes with the first stream vector that meets the shadow registers' values, and travels down with it
    psum : Out(data.ArrayLayout(signed(config.psum_width), config.cols))
        ``cols`` psums

    Attributes
    ----------
    latency
        cycles from ``stream`` to ``psum``

    Timing
    ------
    Latency ``rows`` - 1 and a PE's; a vector a cycle. A column may be loaded in the cycle of ``swap`` for the next
    one, and until the cycle before ``swap`` for this one.
    """

    def __init__(self, config: Config):
        vector = data.ArrayLayout(signed(config.operand_width), config.rows)
        super().__init__({
            "stationary": In(vector), "load": In(config.cols), "stream": In(vector), "swap": In(1),
            "psum": Out(data.ArrayLayout(signed(config.psum_width), config.cols)),
        })  # fmt: skip
        self.config = config
        self._pes = [[PE(config) for _ in range(config.cols)] for _ in range(config.rows)]
        self.latency = config.rows - 1 + self._pes[0][0].latency

    def elaborate(self, platform):
        m = Module()
        above = [0] * self.config.cols
        swap, load = self.swap, self.load
        for row, pes in enumerate(self._pes):
            stream, stationary = (
                delayed(m, vector[row], row, reset=False) for vector in (self.stream, self.stationary)
            )
            for col, pe in enumerate(pes):
                m.submodules[f"pe_r{row}_c{col}"] = pe
                m.d.comb += [
                    pe.stationary.eq(stationary), pe.load.eq(load[col]),
                    pe.swap.eq(swap), pe.stream.eq(stream), pe.i_psum.eq(above[col]),
                ]  # fmt: skip
                above[col] = pe.o_psum
            # No reset: a load or swap that is left goes ahead of all later ones, and each tile is loaded anew.
            swap, load = delayed(m, swap, 1, reset=False), delayed(m, load, 1, reset=False)
        m.d.comb += [self.psum[col].eq(above[col]) for col in range(self.config.cols)]
        return m
