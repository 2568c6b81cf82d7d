"""PEs of one kind as they stand in an array, to measure what one more costs."""

from collections.abc import Callable

from amaranth import Module, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PEMesh"]


class PEMesh(wiring.Component):
    """``rows`` x ``cols`` PEs that ``make`` makes, wired as in :class:`~adagp.rtl.compute.array.Array`.

    A row shares its stream operand, its stationary operand and ``swap``, a column shares ``load``, and psums go down
    the columns, from ``i_psum`` to ``o_psum``. What delays each row's operands until its psums come is left to the
    surroundings, and the first row has psums to add too: so all PEs are the same and whole. Ports are plain bits.
    """

    def __init__(self, make: Callable[[], wiring.Component], rows: int, cols: int):
        self.pes = [[make() for _ in range(cols)] for _ in range(rows)]
        pe = self.pes[0][0]
        operands = data.ArrayLayout(len(Value.cast(pe.stream)), rows)
        psums = data.ArrayLayout(len(Value.cast(pe.i_psum)), cols)
        super().__init__({
            "stationary": In(operands), "load": In(cols), "stream": In(operands), "swap": In(rows),
            "i_psum": In(psums), "o_psum": Out(psums),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        psums = list(self.i_psum)
        for row, pes in enumerate(self.pes):
            for col, pe in enumerate(pes):
                m.submodules[f"pe_r{row}_c{col}"] = pe
                inputs = (
                    (pe.stationary, self.stationary[row]), (pe.load, self.load[col]), (pe.swap, self.swap[row]),
                    (pe.stream, self.stream[row]), (pe.i_psum, psums[col]),
                )  # fmt: skip
                m.d.comb += [Value.cast(port).eq(value) for port, value in inputs]
                psums[col] = Value.cast(pe.o_psum)
        m.d.comb += [out.eq(psum) for out, psum in zip(self.o_psum, psums, strict=True)]
        return m
