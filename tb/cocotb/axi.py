"""cocotbext-axi's memory and master, pausing at random on all channels, and blocks with AXI ports for them."""

from adagp.rtl.memory.arbiters import ReadArbiter, WriteArbiter
from adagp.rtl.memory.axi import AxiRead, AxiWrite, join_axi
from adagp.spec.registers import register
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotbext.axi import (
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiRam,
    AxiRamRead,
    AxiRamWrite,
    AxiReadBus,
    AxiResp,
    AxiSlave,
    AxiWriteBus,
    MemoryRegion,
)  # fmt: skip
from harness import pauses

__all__ = ["FaultyMemory", "OnAxi", "Registers", "axi_ram", "axil_master"]


def _stall(bench, stall, write=None, read=None):
    channels = [write.aw_channel, write.w_channel, write.b_channel] if write else []
    channels += [read.ar_channel, read.r_channel] if read else []
    for channel in channels:
        channel.set_pause_generator(pauses(bench.rng, stall))


def axil_master(bench, prefix: str, stall: float) -> AxiLiteMaster:
    """A master on the AXI-Lite port called ``prefix``."""
    master = AxiLiteMaster(AxiLiteBus.from_prefix(bench.dut, prefix), bench.dut.clk, bench.dut.rst)
    _stall(bench, stall, master.write_if, master.read_if)
    return master


def axi_ram(bench, prefix: str, size: int, stall: float, read: bool = True, write: bool = True):
    """A memory of ``size`` bytes on the AXI port called ``prefix``, or on one direction of it."""
    where = (bench.dut, prefix)
    clocking = (bench.dut.clk, bench.dut.rst)
    if read and write:
        ram = AxiRam(AxiBus.from_prefix(*where), *clocking, size=size)
        _stall(bench, stall, ram.write_if, ram.read_if)
    elif read:
        ram = AxiRamRead(AxiReadBus.from_prefix(*where), *clocking, size=size)
        _stall(bench, stall, read=ram)
    else:
        ram = AxiRamWrite(AxiWriteBus.from_prefix(*where), *clocking, size=size)
        _stall(bench, stall, write=ram)
    if read:
        _know_rid(bench, prefix)
    return ram


class FaultyMemory(MemoryRegion):
    """A memory of ``size`` bytes on the AXI port called ``prefix``, part of which can be made to fail.

    Reads that touch the addresses ``reads``, and writes that touch ``writes``, are answered with ``response``;
    such writes change nothing.
    """

    def __init__(self, bench, prefix: str, size: int, stall: float):
        super().__init__(size)
        self.reads = self.writes = range(0)
        self.response = AxiResp.SLVERR
        slave = AxiSlave(AxiBus.from_prefix(bench.dut, prefix), bench.dut.clk, bench.dut.rst, target=self)
        _stall(bench, stall, slave.write_if, slave.read_if)
        _know_rid(bench, prefix)
        self._answer(slave.read_if.r_channel, "rresp")
        self._answer(slave.write_if.b_channel, "bresp")

    def _answer(self, channel, field):
        """Send ``response`` for the SLVERR that is the slave's word for every failure."""
        send = channel.send

        async def answer(transaction):
            if getattr(transaction, field) != AxiResp.OKAY:
                setattr(transaction, field, self.response)
            await send(transaction)

        channel.send = answer

    @staticmethod
    def _check(faulty, address, length):
        if max(faulty.start, address) < min(faulty.stop, address + length):
            raise ValueError(f"bytes {address:#x} to {address + length:#x} are faulty")

    async def _read(self, address, length, **kwargs):
        self._check(self.reads, address, length)
        return await super()._read(address, length, **kwargs)

    async def _write(self, address, data, **kwargs):
        self._check(self.writes, address, len(data))
        await super()._write(address, data, **kwargs)


def _know_rid(bench, prefix):
    getattr(bench.dut, f"{prefix}_rid").value = 0  # it begins as X, on which the arbiter's ready depends


class Registers:
    """The accelerator's registers by name, through an AXI-Lite master."""

    def __init__(self, master: AxiLiteMaster):
        self.master = master

    async def write(self, name: str, value: int) -> None:
        response = await self.master.write(register(name).offset, (value & 0xFFFF_FFFF).to_bytes(4, "little"))
        assert response.resp == AxiResp.OKAY

    async def read(self, name: str) -> int:
        response = await self.master.read(register(name).offset, 4)
        assert response.resp == AxiResp.OKAY
        return int.from_bytes(response.data, "little")


class OnAxi(wiring.Component):
    """``block`` with its memory clients, members called ``read`` and ``write``, on AXI ports behind arbiters.

    All other members of the block are ports under their own names; ``r_axi`` and ``w_axi`` are those of the clients.
    """

    def __init__(self, config, block, read: str | None = None, write: str | None = None):
        self.config, self.block = config, block
        self.parts = [
            (name, port, part, signature)
            for name, port, part, signature in (
                (read, "r_axi", ReadArbiter, AxiRead), (write, "w_axi", WriteArbiter, AxiWrite),
            )
            if name
        ]  # fmt: skip
        clients = [name for name, *_ in self.parts]
        self.others = {name: member for name, member in block.signature.members.items() if name not in clients}
        super().__init__({**self.others, **{port: Out(signature(config)) for _, port, _, signature in self.parts}})

    def elaborate(self, platform):
        m = Module()
        m.submodules.block = self.block
        for name, port, part, _ in self.parts:
            m.submodules[port] = arbiter = part(self.config, 1)
            wiring.connect(m, getattr(self.block, name), arbiter.clients[0])
            join_axi(m, arbiter.axi, getattr(self, port))
        for name, member in self.others.items():
            inner, outer = getattr(self.block, name), getattr(self, name)
            if member.is_signature:
                wiring.connect(m, wiring.flipped(outer), inner)
            else:
                m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        return m
