"""Batch norm's unit in the compute engine: new values, and tables of constants."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.interfaces import DrainVector, OperandVector
from .scale import Scale, ScaleLayout
from .table_unit import TableLayout
from .tables import Tables

__all__ = ["Norm", "NormLayout"]

NormLayout = data.StructLayout({"is_table": 1, "table": TableLayout, "scale": ScaleLayout})
"""A job for one of the two parts."""


class Norm(wiring.Component):
    """Leads jobs and their vectors to ``Scale`` or to ``Tables``, one job after the other.

    Members
    -------
    job : In(stream.Signature(NormLayout))
        the jobs
    a, b : In(stream.Signature(OperandVector(config)))
        vectors of the operands; tables take only ``a``
    o : Out(stream.Signature(DrainVector(config)))
        the results
    busy : Out(1)
        until a job's last result has gone
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "job": In(stream.Signature(NormLayout)),
            "a": In(stream.Signature(OperandVector(config))), "b": In(stream.Signature(OperandVector(config))),
            "o": Out(stream.Signature(DrainVector(config))), "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.scale = scale = Scale(self._config)
        m.submodules.tables = tables = Tables(self._config)
        job = self.job.p
        idle = ~self.busy
        is_table = Signal()
        with m.If(self.job.valid & self.job.ready):
            m.d.sync += is_table.eq(job.is_table)
        m.d.comb += [
            self.busy.eq(scale.busy | tables.busy), self.job.ready.eq(idle),
            scale.job.valid.eq(self.job.valid & idle & ~job.is_table), scale.job.payload.eq(job.scale),
            tables.job.valid.eq(self.job.valid & idle & job.is_table), tables.job.payload.eq(job.table),
            scale.a.payload.eq(self.a.payload), scale.b.payload.eq(self.b.payload),
            tables.a.payload.eq(self.a.payload),
            scale.a.valid.eq(self.a.valid & ~is_table), tables.a.valid.eq(self.a.valid & is_table),
            self.a.ready.eq(Mux(is_table, tables.a.ready, scale.a.ready)),
            scale.b.valid.eq(self.b.valid), self.b.ready.eq(scale.b.ready),
            self.o.valid.eq(scale.o.valid | tables.o.valid),
            self.o.payload.eq(Mux(is_table, tables.o.payload, scale.o.payload)),
            scale.o.ready.eq(self.o.ready & ~is_table), tables.o.ready.eq(self.o.ready & is_table),
        ]  # fmt: skip
        return m
