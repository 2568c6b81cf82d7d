"""LiteDRAM's core simulated: the host's first commands, data over AXI with stalls, the memory's timing kept."""

import json
import random
from pathlib import Path

import cocotb
import pytest
from adagp.boards.build import find_board
from adagp.boards.memory.controller import DramController
from adagp.boards.memory.ddr3 import Phy
from adagp.spec.presets import preset
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, Combine, RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiMaster
from harness import PERIOD_NS, parameters, pauses

SEED = 11
CLOCK = 100_000_000
WORKERS = 4
ROUNDS = 12
REGION = 1 << 18
STALL = 0.25
LONGEST_WAIT = 100
"""Clocks: the model's memory needs none of the real one's waits after power-up."""


@pytest.mark.parametrize(("board", "preset_name"), [
    ("ecpix5", "tiny"), pytest.param("arty_a7", "ecp5", marks=pytest.mark.slow),  # another preset and board
])  # fmt: skip
def test_core(board, preset_name, tmp_path):
    from runner import run
    from simulated_core import emit_simulated

    config = preset(preset_name)
    path, controller = emit_simulated(find_board(board), config, CLOCK, tmp_path)
    controller.save(tmp_path / "dram.json")
    run(
        "test_dram_core", path, config, tmp_path, seed=SEED, testcase="data",
        controller=str(tmp_path / "dram.json"), out=str(tmp_path / "found.json"),
    )  # fmt: skip
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["bytes_compared"] > WORKERS * ROUNDS * 50
    log = (tmp_path / "bench.log").read_text()
    assert "violation" not in log


class Bus:
    """The registers, for the host's code, which runs in a thread of its own."""

    def __init__(self, dut):
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "csr"), dut.clk)
        self.read, self.write = resume(self._read), resume(self._write)

    async def _read(self, offset):
        return await self.master.read_dword(offset)

    async def _write(self, offset, value):
        await self.master.write_dword(offset, value)


async def begin(dut, controller):
    """Clock on, the memory started by the host's own code, but for what a model's PHY has no registers for."""
    for name in ("rst", "axi_arvalid", "axi_awvalid", "axi_wvalid", "axi_rready", "axi_bready"):
        getattr(dut, name).value = 0
    Clock(dut.clk, PERIOD_NS, "ns").start()
    bus = Bus(dut)
    await ClockCycles(dut.clk, 10)

    async def sleep(seconds):
        await ClockCycles(dut.clk, min(round(seconds * CLOCK), LONGEST_WAIT))

    phy = Phy(bus, controller, resume(sleep), SEED)

    def started():
        phy.close()
        phy.initialise()
        phy.fill()
        wrong = phy.wrong()
        phy.command(0, "ras", "we", "cs")
        return wrong

    assert await bridge(started)() == [0] * controller.lanes
    dut.axi_arvalid.value = dut.axi_awvalid.value = 1
    for _ in range(50):
        await RisingEdge(dut.clk)
        assert not dut.axi_arready.value and not dut.axi_awready.value, "the port is open before the memory is"
    dut.axi_arvalid.value = dut.axi_awvalid.value = 0
    await bridge(phy.open)()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def data(dut):
    """Workers write and read at random places of a region each, with random stalls on all channels."""
    _, values = parameters()
    controller = DramController.load(Path(values["controller"]))
    await begin(dut, controller)
    axi = AxiMaster(AxiBus.from_prefix(dut, "axi"), dut.clk, max_burst_len=64)
    rng = random.Random(cocotb.RANDOM_SEED)
    for channel in (axi.write_if.aw_channel, axi.write_if.w_channel, axi.write_if.b_channel,
                    axi.read_if.ar_channel, axi.read_if.r_channel):  # fmt: skip
        channel.set_pause_generator(pauses(rng, STALL))
    compared = 0

    async def work(number):
        nonlocal compared
        base, known = number * REGION, {}
        for _ in range(ROUNDS):
            size = rng.choice([1, 7, 16, 100, 512, 1024])
            place = base + rng.choice([0, 4096 - size // 2, rng.randrange(REGION - size)])
            content = rng.randbytes(size)
            await axi.write(place, content, awid=number)
            known |= dict(enumerate(content, place))
            begin_at = rng.choice(list(known))
            n_bytes = rng.choice([1, 16, 200, 1024])
            found = (await axi.read(begin_at, n_bytes, arid=number)).data
            for at, value in enumerate(found, begin_at):
                if at in known:
                    assert value == known[at], f"{at:#x} has {value:#x} for {known[at]:#x}"
                    compared += 1

    await Combine(*(cocotb.start_soon(work(number)) for number in range(WORKERS)))
    await RisingEdge(dut.clk)
    assert compared > 0
    Path(values["out"]).write_text(json.dumps({"bytes_compared": compared}))
