"""A stand-in for the accelerator with its ports: copies memory, or only reads or writes it.

Registers (offsets of the accelerator's map): PROGRAM source, RING_BASE target, RING_COUNT bursts,
RING_STRIDE beats of a burst - 1, PHASE bit 0: read, bit 1: write (both: copy), BATCH: misbehave
(1: a burst across a page, 2: fail an assertion), IRQ_ENABLE, CONTROL start, STATUS 4 when done,
ERROR the responses seen, ored.
"""

from pathlib import Path

import numpy as np
from adagp.gen.verilog import generate
from adagp.sim import Simulation
from adagp.spec.config import Config
from adagp.spec.registers import register
from amaranth import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

__all__ = ["READ", "TARGET", "WRITE", "Copier", "simulation", "start"]

READ, WRITE = 1, 2
TARGET = 1 << 19
MEMORY = 1 << 20


def _ports(config):
    address = {"addr": 32, "len": 8, "size": 3, "burst": 2, "cache": 4, "prot": 3, "id": 2}
    data = config.port_width
    master = {f"{c}{name}": Out(width) for c in ("ar", "aw") for name, width in (address | {"valid": 1}).items()}
    master |= {"wdata": Out(data), "wstrb": Out(data // 8), "wlast": Out(1), "wvalid": Out(1)}
    master |= {"rready": Out(1), "bready": Out(1), "arready": In(1), "awready": In(1), "wready": In(1)}
    master |= {"rid": In(2), "rdata": In(data), "rresp": In(2), "rlast": In(1), "rvalid": In(1)}
    master |= {"bid": In(2), "bresp": In(2), "bvalid": In(1)}
    lite = {"awaddr": In(12), "awvalid": In(1), "wdata": In(32), "wstrb": In(4), "wvalid": In(1), "bready": In(1)}
    lite |= {"araddr": In(12), "arvalid": In(1), "rready": In(1), "awready": Out(1), "wready": Out(1)}
    lite |= {"bresp": Out(2), "bvalid": Out(1), "arready": Out(1), "rdata": Out(32), "rresp": Out(2), "rvalid": Out(1)}
    return {"irq": Out(1)} | {f"m_axi_{k}": v for k, v in master.items()} | {f"s_axil_{k}": v for k, v in lite.items()}


class Copier(wiring.Component):
    """The stand-in; ``config`` gives the port's width."""

    NAMES = ("PROGRAM", "RING_BASE", "RING_COUNT", "RING_STRIDE", "PHASE", "BATCH", "IRQ_ENABLE", "STATUS", "ERROR")

    def __init__(self, config: Config):
        self.config = config
        super().__init__(_ports(config))

    def elaborate(self, platform):
        m = Module()
        self.regs = {name: Signal(32, name=name.lower()) for name in self.NAMES}
        self.left = {c: Signal(32, name=f"{c}_left") for c in ("ar", "r", "aw", "w", "b")}
        self.running = Signal()
        self._registers(m)
        self._addresses(m)
        self._data(m)
        with m.If(self.running & (Cat(*self.left.values()) == 0)):
            m.d.sync += [self.running.eq(0), self.regs["STATUS"].eq(4)]
        m.d.comb += self.irq.eq((self.regs["STATUS"] == 4) & self.regs["IRQ_ENABLE"][0])
        m.d.sync += Assert(~(self.running & (self.regs["BATCH"] == 2)), "told to fail")
        return m

    def _registers(self, m):
        write = Signal()
        m.d.comb += [
            write.eq(self.s_axil_awvalid & self.s_axil_wvalid & ~self.s_axil_bvalid),
            self.s_axil_awready.eq(write), self.s_axil_wready.eq(write),
            self.s_axil_arready.eq(self.s_axil_arvalid & ~self.s_axil_rvalid),
        ]  # fmt: skip
        with m.If(self.s_axil_bready):
            m.d.sync += self.s_axil_bvalid.eq(0)
        with m.If(self.s_axil_rready):
            m.d.sync += self.s_axil_rvalid.eq(0)
        with m.If(write):
            m.d.sync += [self.s_axil_bvalid.eq(1), self.s_axil_bresp.eq(Mux(self.s_axil_awaddr[11], 2, 0))]
            for name, reg in self.regs.items():
                with m.If(self.s_axil_awaddr == register(name).offset):
                    m.d.sync += reg.eq(self.s_axil_wdata)
            with m.If(self.s_axil_awaddr == register("CONTROL").offset):
                self._start(m)
        with m.If(self.s_axil_arready):
            m.d.sync += [self.s_axil_rvalid.eq(1), self.s_axil_rdata.eq(0), self.s_axil_rresp.eq(0)]
            for name, reg in self.regs.items():
                with m.If(self.s_axil_araddr == register(name).offset):
                    m.d.sync += self.s_axil_rdata.eq(reg)

    def _start(self, m):
        bursts, beats, phase = self.regs["RING_COUNT"], self.regs["RING_STRIDE"][:8] + 1, self.regs["PHASE"]
        m.d.sync += [self.running.eq(1), self.regs["STATUS"].eq(0), self.regs["ERROR"].eq(0)]
        for channel, total, bit in (("ar", bursts, 0), ("r", bursts * beats, 0), ("aw", bursts, 1),
                                    ("w", bursts * beats, 1), ("b", bursts, 1)):  # fmt: skip
            m.d.sync += self.left[channel].eq(Mux(phase[bit], total, 0))
        m.d.sync += [self.m_axi_araddr.eq(self.regs["PROGRAM"]), self.m_axi_awaddr.eq(self.regs["RING_BASE"])]

    def _addresses(self, m):
        beat = self.config.beat_bytes
        for c in ("ar", "aw"):
            port = {n: getattr(self, f"m_axi_{c}{n}") for n in ("valid", "ready", "addr", "len", "size", "burst")}
            m.d.comb += [
                port["valid"].eq(self.running & (self.left[c] != 0)),
                port["len"].eq(self.regs["RING_STRIDE"]),
                port["size"].eq(beat.bit_length() - 1 - (self.regs["BATCH"] == 1)),
                port["burst"].eq(1),
            ]
            with m.If(port["valid"] & port["ready"]):
                m.d.sync += [
                    port["addr"].eq(port["addr"] + (port["len"] + 1) * beat), self.left[c].eq(self.left[c] - 1)
                ]  # fmt: skip

    def _data(self, m):
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=self.config.port_width, depth=64)
        copy = self.regs["PHASE"][:2] == 3
        place = Signal(8)
        taken = {c: Signal(name=f"{c}_taken") for c in "rwb"}
        m.d.comb += [
            self.m_axi_rready.eq(Mux(copy, fifo.w_rdy, 1)), self.m_axi_bready.eq(1),
            fifo.w_en.eq(copy & taken["r"]), fifo.w_data.eq(self.m_axi_rdata), fifo.r_en.eq(copy & taken["w"]),
            self.m_axi_wvalid.eq(self.running & (self.left["w"] != 0) & (~copy | fifo.r_rdy)),
            self.m_axi_wdata.eq(Mux(copy, fifo.r_data, self.left["w"])),
            self.m_axi_wstrb.eq(Mux(copy, -1, Const(0x5, self.config.beat_bytes))),
            self.m_axi_wlast.eq(place == self.regs["RING_STRIDE"][:8]),
        ]  # fmt: skip
        for c, signal in taken.items():
            m.d.comb += signal.eq(getattr(self, f"m_axi_{c}valid") & getattr(self, f"m_axi_{c}ready"))
            with m.If(signal):
                m.d.sync += self.left[c].eq(self.left[c] - 1)
        with m.If(taken["w"]):
            m.d.sync += place.eq(Mux(self.m_axi_wlast, 0, place + 1))
        seen = Mux(taken["r"], self.m_axi_rresp, 0) | Mux(taken["b"], self.m_axi_bresp, 0)
        with m.If(self.running):
            m.d.sync += self.regs["ERROR"].eq(self.regs["ERROR"] | seen)


def simulation(config: Config, tmp_path: Path, part=None, **options) -> Simulation:
    """A simulation of the copier with 1 MiB of random memory; its Verilog is generated once a session."""
    directory = tmp_path.parent / f"copier-{config.name}"
    top = directory / "top.v"
    if not top.exists():
        generate(config, directory, Copier(config))
    result = Simulation(config, part, memory_bytes=MEMORY, top=top, **options)
    result.memory[:] = np.random.default_rng(1).integers(0, 256, MEMORY)
    return result


def start(simulation: Simulation, bursts: int, beats: int, phase=READ | WRITE, source=0, target=TARGET, misbehave=0):
    """Set the copier off."""
    values = {
        "PROGRAM": source, "RING_BASE": target, "RING_COUNT": bursts, "RING_STRIDE": beats - 1, "PHASE": phase,
        "BATCH": misbehave, "IRQ_ENABLE": 1, "CONTROL": 1,
    }  # fmt: skip
    for name, value in values.items():
        simulation.write_register(register(name).offset, value)
