"""Array: tiles against numpy, one vector per cycle, each tile loaded while the one before is in use."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.rtl.compute.array import Array
from adagp.spec.presets import PRESETS
from amaranth.hdl import ResetInserter, Signal
from bench import seeded, simulate

TINY, PAPER = PRESETS["tiny"], PRESETS["paper"]


@pytest.mark.parametrize(
    "config",
    [TINY, replace(TINY, rows=2, cols=3), replace(TINY, rows=5, cols=2), PAPER],
    ids=lambda c: f"{c.rows}x{c.cols}",
)
def test_tiles(config):
    """They are right, after a reset too that leaves loads and swaps of earlier ones on their way down the rows."""
    dut, reset = Array(config), Signal()
    rng = np.random.default_rng(seeded(2).randrange(1 << 30))
    largest = (1 << (config.operand_width - 1)) - 1
    n_passes = 4
    n_stream = config.cols  # the shortest pass
    weights = rng.integers(-largest, largest, (n_passes, config.rows, config.cols), endpoint=True)
    weights[0, :, 0] = largest  # the longest psum there is
    vectors = rng.integers(-largest, largest, (n_passes, n_stream, config.rows), endpoint=True)
    vectors[0, 0] = -largest
    expected = (vectors @ weights).reshape(-1, config.cols)
    before = 2 * config.rows + 1  # cycles, the last one with reset and a swap
    seen = 0

    async def feed(ctx):
        async def load(tile, col):
            ctx.set(dut.load, 1 << col)
            ctx.set(dut.stationary, [int(v) for v in weights[tile, :, col]])

        for cycle in range(before):
            ctx.set(dut.load, int(rng.integers(1 << config.cols)))
            ctx.set(dut.stationary, rng.integers(-largest, largest, config.rows, endpoint=True).tolist())
            ctx.set(dut.swap, cycle % 2 == 0)
            ctx.set(reset, cycle == before - 1)
            await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(dut.swap, 0)
        for col in range(config.cols):
            await load(0, col)
            await ctx.tick()
        for tile in range(n_passes):
            for p in range(n_stream):
                ctx.set(dut.load, 0)
                if tile + 1 < n_passes:
                    await load(tile + 1, p)
                ctx.set(dut.stream, [int(v) for v in vectors[tile, p]])
                ctx.set(dut.swap, p == 0)
                await ctx.tick()

    async def check(ctx):
        nonlocal seen
        for _ in range(before + config.cols + dut.latency):
            await ctx.tick()
        for row in expected:
            assert [ctx.get(dut.psum[col]) for col in range(config.cols)] == row.tolist()
            seen += 1
            await ctx.tick()

    simulate(ResetInserter(reset)(dut), feed, check)
    assert seen == n_passes * n_stream > 0
