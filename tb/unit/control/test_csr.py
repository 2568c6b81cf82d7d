"""Csr against a dictionary of registers, through its AXI4-Lite port."""

from dataclasses import replace

import pytest
from adagp.rtl.control.csr import Csr, registers
from adagp.spec.config import VERSION
from adagp.spec.layout import Access
from adagp.spec.presets import preset
from adagp.spec.registers import DEVICE_ID, REGISTERS, register
from axi_lite import AxiLiteMaster
from bench import seeded, simulate

EXTERNAL = ("BATCH", "RING_INDEX", "EXPONENT", "HYPER_VALUE")
PREDICTING = (
    "ENTRY_EPOCHS", "ENTRY_LENGTHS", "POSITION_EPOCH", "POSITION_BATCH", "POSITION_RUN", "GATE", "ADAM_POWER1",
    "ADAM_POWER2",
)  # fmt: skip
NARROW = {"IRQ_ENABLE": 1, "PHASE": 2, "CALIBRATE": 1, "COUNTER": 6}


@pytest.mark.parametrize(("name", "variant", "random_signs"), [
    ("tiny", "baseline", False), ("tiny", "baseline", True), ("paper", "baseline", False), ("tiny", "low", False),
    ("tiny", "low", True), ("tiny", "max", False),
])  # fmt: skip
def test_registers(name, variant, random_signs):
    """Registers that a variant lacks read as 0, whatever is written to them."""
    config = replace(preset(name), variant=variant, random_signs=random_signs)
    external = EXTERNAL + PREDICTING * config.predicts
    there = {r.name for r in registers(config)}
    assert (len(there) == len(REGISTERS)) == config.predicts
    there -= {"PREDICTOR"} if variant in ("baseline", "low") else set()
    there -= set() if random_signs else {"SEED"}
    rng = seeded(8)
    dut = Csr(config)
    master = AxiLiteMaster(dut.bus, rng)
    widths = {
        **NARROW,
        "TENSOR": (config.n_tensors - 1).bit_length(), "HYPER": (config.n_hyper - 1).bit_length(),
        **({"PHASE": 3, "WARMUP_EPOCHS": 16, "ENTRIES": 4, "ENTRY": 3} if config.predicts else {}),
    }  # fmt: skip
    expected = {r.name: 0 for r in REGISTERS}
    expected |= {"ID": DEVICE_ID, "VERSION": VERSION, "CONFIG_HASH": config.config_hash}
    strobes = []
    seen = 0

    async def watch(ctx):
        async for _, reset, written, value in ctx.tick().sample(dut.written, dut.write_data):
            if not reset:
                strobes.extend((n.upper(), value) for n in dut.written.shape().members if written[n])

    async def bench(ctx):
        nonlocal seen
        for shown in ("STATUS", "ERROR", "ERROR_INDEX", *external, *["PHASE_NOW"] * config.predicts):
            expected[shown] = rng.randrange(1 << 32)
            ctx.set(getattr(dut, shown.lower()), expected[shown])
        for _ in range(3 * len(REGISTERS)):
            target = rng.choice(REGISTERS)
            value = rng.randrange(1 << 32)
            before = len(strobes)
            await master.write(ctx, target.name, value)
            strobed = target.name in external or target.access == Access.WO
            assert strobes[before:] == [(target.name, value)] * strobed
            if target.access == Access.RW and not strobed and target.name in there:
                expected[target.name] = value & ((1 << widths.get(target.name, 32)) - 1)
                assert ctx.get(getattr(dut, target.name.lower())) == expected[target.name]
            for r in rng.sample(REGISTERS, 6):
                if not r.name.startswith("COUNTER_"):
                    assert await master.read(ctx, r.name) == expected[r.name], r.name
                    seen += 1

    simulate(dut, bench, background=(watch,))
    assert seen > 100


def test_partial_strobes_and_holes():
    config = preset("tiny")
    rng = seeded(9)
    dut = Csr(config)
    master = AxiLiteMaster(dut.bus, rng)
    program = register("PROGRAM").offset
    hole = 4 * len(REGISTERS)

    async def bench(ctx):
        await master.write(ctx, "PROGRAM", 0x12345600)
        for strobe in (0, 1, 7, 0xE):
            assert await master.write_at(ctx, program, 0xFFFFFFFF, strobe) == 2
        for offset in (hole, 0xFFC):
            assert await master.write_at(ctx, offset, 0xFFFFFFFF) == 0
            assert await master.read_at(ctx, offset) == 0
        assert await master.read(ctx, "PROGRAM") == 0x12345600
        assert await master.read(ctx, "CONTROL") == 0

    simulate(dut, bench)


def test_counter_halves_belong_together():
    dut = Csr(preset("tiny"))
    master = AxiLiteMaster(dut.bus, seeded(10))

    async def bench(ctx):
        ctx.set(dut.counter_value, 0x1_FFFF_FFFF)
        assert await master.read(ctx, "COUNTER_LOW") == 0xFFFF_FFFF
        ctx.set(dut.counter_value, 0x2_0000_0000)
        await master.read(ctx, "STATUS")
        assert await master.read(ctx, "COUNTER_HIGH") == 1
        assert await master.read(ctx, "COUNTER_LOW") == 0
        assert await master.read(ctx, "COUNTER_HIGH") == 2

    simulate(dut, bench)
