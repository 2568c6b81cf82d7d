"""BlockQueue against a plain one."""

from collections import deque

import pytest
from adagp.rtl.lib.block_queue import BlockQueue
from bench import seeded, simulate


@pytest.mark.parametrize("depth", [0, 1, 3, 6])
def test_refuses(depth):
    with pytest.raises(ValueError, match=f"a power of two above 1, not {depth}"):
        BlockQueue(8, depth)


@pytest.mark.parametrize("depth", [2, 8])
@pytest.mark.parametrize(("writes", "reads"), [(1.0, 1.0), (0.9, 0.3), (0.3, 0.9), (0.6, 0.6)])
def test_random(depth, writes, reads):
    """In order, none lost, none twice; as many as said fit; two cycles from one end to the other, then one a cycle."""
    rng, dut = seeded(depth), BlockQueue(16, depth)
    held, seen, levels, waited = deque(), 0, set(), 0

    async def bench(ctx):
        nonlocal seen, waited
        for cycle in range(3000):
            level = ctx.get(dut.level)
            levels.add(level)
            assert level == len(held) and ctx.get(dut.w_rdy) == (level - ctx.get(dut.r_rdy) < depth)
            waited = 0 if ctx.get(dut.r_rdy) or not held else waited + 1
            assert waited < 2 and (held or not ctx.get(dut.r_rdy))
            write, read = rng.random() < writes, rng.random() < reads
            ctx.set(dut.w_en, write)
            ctx.set(dut.w_data, cycle)
            ctx.set(dut.r_en, read)
            taken = write and ctx.get(dut.w_rdy)
            if read and ctx.get(dut.r_rdy):
                assert ctx.get(dut.r_data) == held.popleft()
                seen += 1
            await ctx.tick()
            if taken:
                held.append(cycle)

    simulate(dut, bench)
    assert seen > 800 and (writes <= reads or max(levels) == depth + 1)
    if writes == reads == 1.0:
        assert seen > 2990
