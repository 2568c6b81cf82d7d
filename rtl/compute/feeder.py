"""Feeds the array: stationary vectors into shadow registers, stream vectors into rows."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.interfaces import OperandVector, Token
from .accumulator import SumLayout

__all__ = ["Feeder", "GemmLayout"]

GemmLayout = data.StructLayout({"first": 1, "last": 1})
"""A GEMM: ``first`` opens an accumulator half and overwrites it, ``last`` completes it."""


class Feeder(wiring.Component):
    """Pairs passes of the stream operand with stationary tiles, and says where their psums go.

    A stationary tile is up to ``cols`` stationary vectors, loaded column by column while the tile before is in use. A
    pass is the stream vectors that meet it. ``stationary`` runs ahead of ``gemm``.

    Parameters
    ----------
    apart
        least cycles from a pass's begin to the next one's, 3 or more

    Members
    -------
    gemm : In(stream.Signature(GemmLayout))
        the GEMMs
    stationary, stream : In(stream.Signature(OperandVector(config)))
        vectors of the two operands
    acc_free : Out(Token())
        token of an accumulator half
    load, load_data, swap, stream_data : Out
        to the array
    tag : Out(SumLayout)
        for the accumulator, with the psums of the vector taken in this cycle
    macs : Out(range(config.n_pes + 1))
        valid products of a vector, ``MACS_LATENCY`` cycles after it is taken
    active : Out(1)
        a vector is taken
    undrained : Out(1)
        only an accumulator half is missing
    busy : Out(1)
        a GEMM is in progress

    Timing
    ------
    Combinational from vector to array; ``stream`` is ready whether or not a vector is there. A tile is loaded from the
    cycle after a pass's begin on, so passes follow each other without a pause if they have ``apart`` vectors or more,
    and more than the next one's tile.
    """

    MACS_LATENCY = 2

    def __init__(self, config: Config, apart: int):
        vector = data.ArrayLayout(signed(config.operand_width), config.rows)
        super().__init__({
            "gemm": In(stream.Signature(GemmLayout)),
            "stationary": In(stream.Signature(OperandVector(config))),
            "stream": In(stream.Signature(OperandVector(config))),
            "acc_free": Out(Token()),
            "load": Out(config.cols), "load_data": Out(vector), "swap": Out(1), "stream_data": Out(vector),
            "tag": Out(SumLayout), "macs": Out(range(config.n_pes + 1)), "active": Out(1), "undrained": Out(1),
            "busy": Out(1),
        })  # fmt: skip
        self.config = config
        self.apart = apart

    def elaborate(self, platform):
        m = Module()
        loaded, loads, columns = self._load(m)
        settled = self._settle(m)
        gemm = Signal(GemmLayout)
        opened, overwrite, in_pass, half = (Signal(name=name) for name in ("opened", "overwrite", "in_pass", "half"))
        pass_columns = Signal.like(columns)
        vector = self.stream.payload
        need_half, ends, begins = (Signal(name=name) for name in ("need_half", "ends", "begins"))
        may = Signal()  # a vector may go; decided a cycle before, as many signals wait for it

        m.d.comb += [
            need_half.eq(gemm.first & ~opened),
            self.undrained.eq(self.busy & self.stream.valid & (in_pass | (loaded & settled)) & ~may),
            self.active.eq(may & self.stream.valid),
            self.stream.ready.eq(may), self.stream_data.eq(vector.data),
            self.swap.eq(self.active & ~in_pass), self.acc_free.take.eq(self.active & need_half),
            ends.eq(self.active & vector.end_walk), self.gemm.ready.eq(~self.busy | ends),
            begins.eq(self.gemm.valid & self.gemm.ready),
            self.tag.valid.eq(self.active), self.tag.half.eq(half), self.tag.overwrite.eq(overwrite),
            self.tag.end_sweep.eq(vector.end_sweep), self.tag.full.eq(vector.end_walk & gemm.last),
        ]  # fmt: skip
        # From the state of the next cycle, with or without a vector in this one, which is known late. A half counts as
        # free if it was free a cycle before: the next pass comes long after a half is taken.
        free, tile = self.acc_free.avail, (loads | loaded) & settled
        opens = self.gemm.valid & (free | ~self.gemm.payload.first)
        goes_on = (~vector.end_pass | (tile & in_pass)) & (~vector.end_walk | opens)
        waits = (in_pass | tile) & Mux(self.busy, free | ~need_half, opens)
        m.d.sync += may.eq(Mux(self.active, goes_on, waits))
        with m.If(self.active):
            with m.If(self.swap):
                m.d.sync += pass_columns.eq(columns)
            m.d.sync += [in_pass.eq(~vector.end_pass), opened.eq(1)]
            with m.If(vector.end_sweep):
                m.d.sync += overwrite.eq(0)
        s1_lanes, s1_columns = Signal.like(vector.lanes), Signal.like(columns)
        m.d.sync += [
            s1_lanes.eq(Mux(self.active, vector.lanes, 0)), s1_columns.eq(Mux(self.swap, columns, pass_columns)),
            self.macs.eq(s1_lanes * s1_columns),
        ]  # fmt: skip
        with m.If(ends):
            m.d.sync += [self.busy.eq(0), half.eq(half ^ gemm.last)]
        with m.If(begins):
            m.d.sync += [
                self.busy.eq(1), gemm.eq(self.gemm.payload), opened.eq(0), overwrite.eq(self.gemm.payload.first),
            ]  # fmt: skip
        return m

    def _load(self, m):
        """Load stationary vectors into the shadow registers.

        Returns whether a tile is there, whether its last vector comes now, and its columns.
        """
        loaded = Signal()
        loads = Signal()
        columns = Signal(range(self.config.cols + 1))
        column = Signal(self.config.cols, init=1)
        taken = self.stationary.valid & self.stationary.ready
        m.d.comb += [
            self.stationary.ready.eq(~loaded),
            self.load_data.eq(self.stationary.payload.data),
        ]
        with m.If(taken):
            m.d.comb += self.load.eq(column)
            m.d.sync += [columns.eq(columns + 1), column.eq(column << 1)]
            with m.If(column[0]):
                m.d.sync += columns.eq(1)
        m.d.comb += loads.eq(taken & (column[-1] | self.stationary.payload.end_pass))
        with m.If(loads):
            m.d.sync += [loaded.eq(1), column.eq(1)]
        with m.If(self.swap):
            m.d.sync += loaded.eq(0)
        return loaded, loads, columns

    def _settle(self, m):
        """Count the cycles from a pass's begin; returns whether another may begin in the next cycle."""
        settling = Signal(range(self.apart - 1))
        settled = Signal(init=1)
        with m.If(settling != 0):
            m.d.sync += [settling.eq(settling - 1), settled.eq(settling == 1)]
        with m.If(self.swap):
            m.d.sync += [settling.eq(self.apart - 2), settled.eq(0)]
        return settled
