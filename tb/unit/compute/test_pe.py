"""PE: products with the active stationary operand, exchanged without disturbing the psum chain."""

import pytest
from adagp.rtl.compute.pe import PE
from adagp.spec.presets import PRESETS
from bench import seeded, simulate

N_CYCLES = 300


@pytest.mark.parametrize("name", ["tiny", "paper", "ecp5"])
def test_random_cycles(name):
    config = PRESETS[name]
    dut = PE(config)
    rng = seeded(1)
    largest = (1 << (config.operand_width - 1)) - 1
    seen = 0

    async def bench(ctx):
        nonlocal seen
        shadow = active = 0
        products = [0] * dut.latency
        for cycle in range(N_CYCLES):
            x, w = (rng.choice([-largest, largest, rng.randint(-largest, largest)]) for _ in range(2))
            load, swap = rng.random() < 0.3, rng.random() < 0.3
            above = rng.randint(-(1 << config.psum_width - 2), 1 << config.psum_width - 2)
            for port, value in (
                (dut.stationary, w), (dut.load, load), (dut.swap, swap), (dut.stream, x), (dut.i_psum, above),
            ):  # fmt: skip
                ctx.set(port, value)
            active = shadow if swap else active
            products.append(x * active)
            shadow = w if load else shadow
            await ctx.tick()
            if cycle >= dut.latency:
                assert ctx.get(dut.o_psum) == above + products[-dut.latency]
                seen += 1

    simulate(dut, bench)
    assert seen == N_CYCLES - dut.latency > 0
