"""Keeps writes within the declared write regions."""

from amaranth import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.registers import N_REGIONS
from ..lib.interfaces import RegionLayout, WriteClient
from ..lib.register_slice import RegisterSlice
from ..lib.skid import Skid
from .bursts import BurstLayout

__all__ = ["RegionGate"]


class RegionGate(wiring.Component):
    """Lets bursts pass that lie in a write region; at the first other one it stops for good.

    Members
    -------
    i : In(stream of BurstLayout)
        bursts
    request : Out(request stream)
        bursts that lie in a region
    regions : In(array of RegionLayout)
        the write regions
    idle : Out(1)
        no burst is inside the gate
    fault : Out(1)
        a burst lies in no region; stays high

    Timing
    ------
    A burst a cycle; with a predictor memory on chip one every two cycles, as that takes two for each address to write.
    """

    def __init__(self, config: Config):
        self._between = RegisterSlice if config.predictor_on_chip else Skid
        super().__init__({
            "i": In(stream.Signature(BurstLayout)),
            "request": Out(WriteClient(config).members["request"].signature),
            "regions": In(data.ArrayLayout(RegionLayout, N_REGIONS)),
            "idle": Out(1), "fault": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        request = self.request.p.shape()
        # Registers on each side, as both neighbours are far away.
        m.submodules.arrived = arrived = self._between(BurstLayout)
        m.submodules.leaving = leaving = self._between(data.StructLayout({"request": request, "inside": 1}))
        wiring.connect(m, wiring.flipped(self.i), arrived.i)
        begins, ends = Signal(N_REGIONS), Signal(N_REGIONS)  # the burst begins, and ends, within each region
        s0, s1, s1_valid = arrived.o.p, Signal(request, reset_less=True), Signal()
        m.d.comb += [
            leaving.i.valid.eq(s1_valid),
            leaving.i.p.request.eq(s1),
            leaving.i.p.inside.eq((begins & ends).any()),
            arrived.o.ready.eq(~s1_valid | leaving.i.ready),
            self.request.valid.eq(leaving.o.valid & leaving.o.p.inside),
            self.request.p.eq(leaving.o.p.request),
            leaving.o.ready.eq(self.request.ready & leaving.o.p.inside),
            self.idle.eq(~arrived.o.valid & ~s1_valid & ~leaving.o.valid),
            self.fault.eq(leaving.o.valid & ~leaving.o.p.inside),  # it never leaves
        ]
        with m.If(arrived.o.ready):
            m.d.sync += [
                s1_valid.eq(arrived.o.valid),
                s1.addr.eq(s0.addr),
                s1.length.eq(s0.length),
                begins.eq(Cat(~(s0.first - region.start)[-1] for region in self.regions)),
                ends.eq(Cat((s0.last - region.end)[-1] for region in self.regions)),  # signs, out of carry chains
            ]
        return m
