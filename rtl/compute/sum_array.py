"""The output-stationary array: each PE keeps the sum of a pair of outer positions, and rows of sums leave."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.delay import delayed
from ..lib.multiplier import Multiplier
from .sum_pe import SumPE

__all__ = ["SumArray"]


class SumArray(wiring.Component):
    """``rows`` x ``cols`` PEs with resident sums; a pipeline that never stalls.

    A cycle brings one element of the reduction: an operand for each row, and one for each column. Row i works on it i
    cycles after row 0. So the rows of finished sums leave one after the other, straight from the PEs, whose next sums
    begin in the cycle after.

    Members
    -------
    a : In(data.ArrayLayout(operand, config.rows))
        the rows' operands
    b : In(data.ArrayLayout(operand, config.cols))
        the columns' operands
    add : In(1)
        products of ``a`` and ``b`` count
    first : In(1)
        sums begin with them
    row : In(range(config.rows))
        row whose sums leave: row i in the i-th cycle after the sums' last operands
    psum : Out(data.ArrayLayout(signed(config.psum_width), config.cols))
        the row's sums

    Attributes
    ----------
    latency
        cycles from ``row`` to ``psum``
    """

    def __init__(self, config: Config):
        operand = signed(config.operand_width)
        super().__init__({
            "a": In(data.ArrayLayout(operand, config.rows)), "b": In(data.ArrayLayout(operand, config.cols)),
            "add": In(1), "first": In(1), "row": In(range(config.rows)),
            "psum": Out(data.ArrayLayout(signed(config.psum_width), config.cols)),
        })  # fmt: skip
        self.config = config
        self.latency = SumPE.latency + 1

    def elaborate(self, platform):
        m = Module()
        operands = self.b
        add, first = (delayed(m, flag, Multiplier.LATENCY) for flag in (self.add, self.first))
        sums: list[list] = [[] for _ in range(self.config.cols)]
        for row in range(self.config.rows):
            a = delayed(m, self.a[row], row, reset=False)
            for col in range(self.config.cols):
                m.submodules[f"pe_r{row}_c{col}"] = pe = SumPE(self.config)
                m.d.comb += [pe.a.eq(a), pe.b.eq(operands[col]), pe.add.eq(add), pe.first.eq(first)]
                sums[col].append(pe.o)
            travelled = Signal.like(self.b, name=f"b_r{row}", reset_less=True)
            later, begun = Signal(name=f"add_r{row}"), Signal(name=f"first_r{row}")
            m.d.sync += [travelled.eq(operands), later.eq(add), begun.eq(first)]
            operands, add, first = travelled, later, begun
        leaves = delayed(m, self.row, SumPE.latency, reset=False)
        for col, column in enumerate(sums):
            psum = Signal(signed(self.config.psum_width), name=f"psum_c{col}", reset_less=True)
            m.d.sync += psum.eq(_chosen(column, leaves))
            m.d.comb += self.psum[col].eq(psum)
        return m


def _chosen(values, number):
    """The value with a ``number``, by a multiplexer for each of its bits."""
    for bit in number:
        pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
        values = [Mux(bit, *reversed(pair)) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]
