"""The host link's accesses to registers and memory, one at a time."""

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..control.csr import AxiLite
from ..memory.axi import INCR, AxiMaster

__all__ = ["AccessLayout", "LinkAccess", "LinkPorts"]


def AccessLayout(config: Config) -> data.StructLayout:
    """An access to a beat of a space: 0 is the accelerator's registers, 1 the memory controller's, 2 memory.

    Registers are the lowest 32 bits of the beat.
    """
    return data.StructLayout({
        "space": 2, "write": 1, "addr": 32, "data": config.port_width, "strobe": config.beat_bytes,
    })  # fmt: skip


class LinkPorts(wiring.Signature):
    """The buses of the spaces, in their order."""

    def __init__(self, config: Config):
        super().__init__({"csr": Out(AxiLite()), "dram_csr": Out(AxiLite()), "m_axi": Out(AxiMaster(config))})


class LinkAccess(wiring.Component):
    """Carries out accesses, one after the other; in memory as bursts of one beat.

    Members
    -------
    i : In(stream of AccessLayout(config))
        accesses; the next one is taken after ``done``
    ports : Out(LinkPorts(config))
        the buses
    done : Out(1)
        pulses when the access is answered
    fault, o : Out(1), Out(port_width)
        with ``done``: the bus answered with an error; the data read
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "i": In(stream.Signature(AccessLayout(config))), "ports": Out(LinkPorts(config)),
            "done": Out(1), "fault": Out(1), "o": Out(config.port_width),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        i = self.i.p
        busy, answered = Signal(), Signal()
        access = Signal.like(i)
        channels = {name: Signal(name=f"{name}valid") for name in ("ar", "aw", "w")}
        m.d.comb += self.i.ready.eq(~busy & ~self.done)
        m.d.sync += self.done.eq(answered)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                access.eq(i), busy.eq(1),
                channels["ar"].eq(~i.write), channels["aw"].eq(i.write), channels["w"].eq(i.write),
            ]  # fmt: skip
        with m.Elif(answered):
            m.d.sync += busy.eq(0)
        for space, name in enumerate(("csr", "dram_csr", "m_axi")):
            bus = getattr(self.ports, name)
            chosen = busy & (access.space == space)
            m.d.comb += [
                bus.araddr.eq(access.addr), bus.awaddr.eq(access.addr), bus.wdata.eq(access.data),
                bus.wstrb.eq(access.strobe), bus.rready.eq(1), bus.bready.eq(1),
            ]  # fmt: skip
            for channel, valid in channels.items():
                m.d.comb += getattr(bus, f"{channel}valid").eq(valid & chosen)
                with m.If(chosen & getattr(bus, f"{channel}ready")):
                    m.d.sync += valid.eq(0)
            with m.If(chosen & (bus.rvalid | bus.bvalid)):
                m.d.comb += answered.eq(1)
                m.d.sync += [
                    self.o.eq(bus.rdata),
                    self.fault.eq((bus.rvalid & bus.rresp[1]) | (bus.bvalid & bus.bresp[1])),
                ]
        axi = self.ports.m_axi
        for channel in ("ar", "aw"):
            constants = {"size": (self.config.beat_bytes - 1).bit_length(), "burst": INCR}
            m.d.comb += [getattr(axi, channel + name).eq(value) for name, value in constants.items()]
        m.d.comb += axi.wlast.eq(1)
        return m
