"""Batch norm's tables: groups of channels through the units that make their constants."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.norm import BACKWARD_ROW, FORWARD_ROW, GRADIENT_PLANES, planes
from ..lib.interfaces import DrainVector, OperandVector
from ..lib.skid import Skid
from .layouts import Task
from .table_unit import OUT_PLANES, WEIGHTS_AT, PlaceLayout, TableLayout, TableUnit

__all__ = ["Tables"]


class Tables(wiring.Component):
    """Makes planes of constants from planes of vectors ``a``, for a group of ``rows`` channels at a time.

    ``norm_units`` units share the lanes.

    Members
    -------
    job : In(stream.Signature(TableLayout))
        the jobs
    a : In(stream.Signature(OperandVector(config)))
        the planes, group by group
    o : Out(stream.Signature(DrainVector(config)))
        the planes made, with shifts; all but gradients are plain
    busy : Out(1)
        until a job's last vector has gone
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "job": In(stream.Signature(TableLayout)), "a": In(stream.Signature(OperandVector(config))),
            "o": Out(stream.Signature(DrainVector(config))), "busy": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        config = self._config
        job = Signal(TableLayout)
        lanes = config.rows // config.norm_units
        m.submodules.skid = skid = Skid(self.o.payload.shape())
        wiring.connect(m, skid.o, wiring.flipped(self.o))
        units = [TableUnit(config, lanes) for _ in range(config.norm_units)]
        place, write, start, reads = Signal(PlaceLayout), Signal(), Signal(), Signal()
        there, plain = Signal(), Signal()  # a plane has been read; it isn't a gradient
        for number, unit in enumerate(units):
            m.submodules[f"unit{number}"] = unit
            m.d.comb += [
                unit.job.eq(job), unit.write.eq(write), unit.place.eq(place), unit.start.eq(start),
                unit.r_en.eq(reads), unit.r_place.eq(place),
            ]  # fmt: skip
            for lane in range(lanes):
                at = number * lanes + lane
                m.d.comb += [
                    unit.i[lane].eq(self.a.payload.data[at]),
                    skid.i.payload.sums[at].eq(unit.o[lane].value), skid.i.payload.shift[at].eq(unit.o[lane].shift),
                ]  # fmt: skip
        m.d.comb += [skid.i.valid.eq(there), skid.i.payload.plain.eq(plain)]
        self._control(m, job, place, write, start, reads, (there, plain, skid.i.ready), units)
        return m

    def _control(self, m, job, place, write, start, reads, reading, units):
        """Take a group's planes, let the units work, give what they have made."""
        there, plain, taken = reading
        ended = Signal()
        of_g = job.task == Task.BACKWARD
        made = Mux(
            of_g, GRADIENT_PLANES + planes(BACKWARD_ROW),
            Mux(job.task == Task.RUNNING, planes(FORWARD_ROW), OUT_PLANES),
        )  # fmt: skip
        begin = Mux(job.task == Task.RUNNING, WEIGHTS_AT, 0)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.job.ready.eq(~self.o.valid)
                m.d.sync += job.eq(self.job.payload)
                with m.If(self.job.valid & self.job.ready):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.sync += place.eq(begin)
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += [self.a.ready.eq(1), write.eq(self.a.valid)]
                m.d.sync += ended.eq(self.a.payload.end_walk)
                with m.If(self.a.valid):
                    m.d.sync += place.eq(place + 1)
                    with m.If(self.a.payload.end_pass):
                        m.next = "START"
            with m.State("START"):
                m.d.comb += start.eq(1)
                m.d.sync += place.eq(0)
                m.next = "STARTED"
            with m.State("STARTED"), m.If(Cat(unit.ready for unit in units).all()):
                m.next = "GIVE"
            with m.State("GIVE"), m.If(~there | taken):
                m.d.comb += reads.eq(place != made)
                m.d.sync += [there.eq(reads), plain.eq(~of_g | (place >= GRADIENT_PLANES)), place.eq(place + 1)]
                with m.If(~reads):
                    m.next = "BEGIN"
                    with m.If(ended):
                        m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE") | self.o.valid)
