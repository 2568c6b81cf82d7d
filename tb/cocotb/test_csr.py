"""The register file through cocotbext-axi's AXI-Lite master, with reads and writes at the same time."""

from dataclasses import replace

import cocotb
import pytest
from adagp.rtl.control.csr import Csr, stored_registers
from adagp.spec.config import VERSION
from adagp.spec.layout import Access
from adagp.spec.presets import preset
from adagp.spec.registers import DEVICE_ID, REGISTERS, register
from amaranth import Shape
from axi import axil_master
from cocotb.triggers import Combine
from cocotbext.axi import AxiResp
from harness import Bench, parameters
from runner import SIMULATORS, run

SEED = 21
STALL = 0.4


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize(("name", "variant"), [("tiny", "baseline"), ("paper", "efficient")])
def test_csr(name, variant, simulator, tmp_path):
    config = replace(preset(name), variant=variant)
    run("test_csr", Csr(config), config, tmp_path, simulator=simulator, seed=SEED)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def registers(dut):
    """Random writes reach the registers and nothing else; reads see them, while other writes are under way."""
    config, _ = parameters()
    there = Csr(config)
    bench = Bench(dut, there)
    await bench.start()
    master = axil_master(bench, "bus", STALL)
    widths = {name: Shape.cast(shape).width for name, shape in stored_registers(config).items()}
    expected = {r.name: 0 for r in REGISTERS}
    expected |= {"ID": DEVICE_ID, "VERSION": VERSION, "CONFIG_HASH": config.config_hash}
    strobes, given, seen, count = [], [], 0, 0

    def show():
        """Other numbers in what is kept elsewhere; a counter's upper half is the one of when its lower was read."""
        nonlocal count
        for name in there.shown:
            expected[name] = bench.rng.getrandbits(32)
            bench.set(name.lower(), expected[name])
        count = bench.rng.getrandbits(64)
        expected["COUNTER_LOW"] = count & 0xFFFF_FFFF
        bench.set("counter_value", count)

    def see():
        written = bench.get("written")
        strobes.extend((n, bench.get("write_data")) for n in there.effects if written[n.lower()])

    async def write(target, value):
        response = await master.write(target.offset, value.to_bytes(4, "little"))
        assert response.resp == AxiResp.OKAY

    async def read(target):
        nonlocal seen
        response = await master.read(target.offset, 4)
        assert int.from_bytes(response.data, "little") == expected[target.name], target.name
        if target.name == "COUNTER_LOW":
            expected["COUNTER_HIGH"] = count >> 32
        seen += 1

    bench.watch(see)
    for _ in range(60):
        show()
        target, value = bench.rng.choice(REGISTERS), bench.rng.getrandbits(32)
        others = [r for r in bench.rng.sample(REGISTERS, 5) if r != target]
        await Combine(cocotb.start_soon(write(target, value)), *(cocotb.start_soon(read(other)) for other in others))
        if target.name in there.effects:
            given.append((target.name, value))
        elif target.access == Access.RW:
            expected[target.name] = value & ((1 << widths.get(target.name, 0)) - 1)
        await read(target)
    assert strobes == given
    assert seen > 250 and given


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def partial_writes(dut):
    """A write without all its strobes is refused and changes nothing; holes read as 0."""
    config, _ = parameters()
    bench = Bench(dut, Csr(config))
    await bench.start()
    master = axil_master(bench, "bus", STALL)
    program, hole = register("PROGRAM").offset, 4 * len(REGISTERS)
    await master.write(program, bytes([0, 0x56, 0x34, 0x12]))
    for offset, size in ((0, 1), (1, 3), (2, 2)):
        response = await master.write(program + offset, b"\xff" * size)
        assert response.resp == AxiResp.SLVERR
    assert (await master.write(hole, b"\xff" * 4)).resp == AxiResp.OKAY
    assert (await master.read(hole, 4)).data == bytes(4)
    assert (await master.read(program, 4)).data == bytes([0, 0x56, 0x34, 0x12])
