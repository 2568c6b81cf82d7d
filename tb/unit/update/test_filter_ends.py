"""Ends of filters, whose biases have no gradient: groups taken at random moments."""

from dataclasses import replace

import pytest
from adagp.rtl.update.filter_ends import FilterEnds
from bench import seeded, simulate
from predicted_bench import PREDICTED

CONFIGS = {
    name: replace(PREDICTED[name], variant="max", streamed_predictions=True) for name in ("tiny", "four lanes")
}  # fmt: skip
FAR = 1 << 23
"""Weights of a filter that takes most of its field's bits."""


@pytest.mark.parametrize("name", CONFIGS)
def test_block(name):
    """Commands with filters of many sizes, groups taken at random moments; some begin before others have ended."""
    config, rng, seen = CONFIGS[name], seeded(51), 0
    lanes, dut = config.update_lanes, FilterEnds(config)

    async def bench(ctx):
        nonlocal seen
        for size in (lanes, 0, lanes + 1, FAR, 2 * lanes - 1, 29, 2 * lanes, 0):
            ctx.set(dut.filter, size)
            await ctx.tick()
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for first in range(0, 200, lanes):
                while rng.random() < 0.3:
                    await ctx.tick()
                ends = [size > 0 and (first + lane + 1) % size == 0 for lane in range(lanes)]
                assert ctx.get(dut.o) == sum(end << lane for lane, end in enumerate(ends)), (size, first)
                seen += sum(ends)
                ctx.set(dut.taken, 1)
                await ctx.tick()
                ctx.set(dut.taken, 0)

    simulate(dut, bench)
    assert seen > 60
