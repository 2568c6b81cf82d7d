"""The systolic array: rows of PEs share a stream operand, columns sum."""

from amaranth import Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from .pe import PE

__all__ = ["Array"]


class Array(wiring.Component):
    """``rows`` x ``cols`` weight-stationary PEs; a pipeline that never stalls.

    Row i sees its element of a stream vector i cycles after row 0, in all columns at once, so the psums of all columns
    leave in the same cycle.

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
    swap_cycles
        cycles from ``swap`` until columns may be loaded again

    Timing
    ------
    Latency ``rows - 1 + PE.latency``; a vector a cycle.
    """

    def __init__(self, config: Config):
        vector = data.ArrayLayout(signed(config.operand_width), config.rows)
        super().__init__({
            "stationary": In(vector), "load": In(config.cols), "stream": In(vector), "swap": In(1),
            "psum": Out(data.ArrayLayout(signed(config.psum_width), config.cols)),
        })  # fmt: skip
        self.config = config
        self.latency = config.rows - 1 + PE.latency
        self.swap_cycles = config.rows - 1

    def elaborate(self, platform):
        m = Module()
        above = [0] * self.config.cols
        swap = self.swap
        for row in range(self.config.rows):
            stream = self.stream[row]
            for stage in range(row):
                delayed = Signal(signed(self.config.operand_width), name=f"stream_r{row}_s{stage}", reset_less=True)
                m.d.sync += delayed.eq(stream)
                stream = delayed
            for col in range(self.config.cols):
                m.submodules[f"pe_r{row}_c{col}"] = pe = PE(self.config)
                m.d.comb += [
                    pe.stationary.eq(self.stationary[row]), pe.load.eq(self.load[col]),
                    pe.swap.eq(swap), pe.stream.eq(stream), pe.i_psum.eq(above[col]),
                ]  # fmt: skip
                above[col] = pe.o_psum
            travelled = Signal(name=f"swap_r{row}")
            m.d.sync += travelled.eq(swap)
            swap = travelled
        m.d.comb += [self.psum[col].eq(above[col]) for col in range(self.config.cols)]
        return m
