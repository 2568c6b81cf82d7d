"""A reset on its way from block to block."""

from dataclasses import replace

import pytest
from adagp.rtl.core import Core
from adagp.rtl.supervisor import RESET_CYCLES
from adagp.spec.presets import PRESETS, preset
from bench import simulate


@pytest.mark.parametrize("name", PRESETS)
def test_it_has_reached_all_blocks_before_it_leaves_the_first(name):
    """One register at the top, then the cores, one behind the other."""
    assert 1 + replace(preset(name), variant="max").n_cores * Core.RESETS < RESET_CYCLES


def test_it_leaves_a_core_when_it_has_been_in_all_of_its_blocks():
    dut = Core(preset("tiny"))
    seen = []

    async def bench(ctx):
        for cycle in range(4 * Core.RESETS):
            ctx.set(dut.reset, cycle < RESET_CYCLES)
            await ctx.tick()
            seen.append(ctx.get(dut.restarted))

    simulate(dut, bench)
    assert seen == [Core.RESETS <= cycle + 1 < RESET_CYCLES + Core.RESETS for cycle in range(4 * Core.RESETS)]
