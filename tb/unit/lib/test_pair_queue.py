"""PairQueue against a plain one."""

from collections import deque

import pytest
from adagp.rtl.lib.pair_queue import PairQueue
from bench import seeded, simulate

CYCLES = 3000


@pytest.mark.parametrize(("writes", "reads"), [(1.0, 1.0), (0.9, 0.2), (0.2, 0.9), (0.5, 0.5)])
def test_random(writes, reads):
    """In order, none lost, none twice; two fit; two cycles to ``r_rdy``, data a cycle later, an item every three."""
    rng, dut = seeded(6), PairQueue(16)
    held, seen, levels, latencies = deque(), 0, set(), set()
    since = None  # cycles since the first item was written, or became the first

    async def bench(ctx):
        nonlocal seen, since
        there = False  # r_rdy of the cycle before, and nothing was removed in it
        for cycle in range(CYCLES):
            level, ready = ctx.get(dut.level), ctx.get(dut.r_rdy)
            levels.add(level)
            assert level == len(held) and (held or not ready)
            assert ctx.get(dut.w_rdy) or level
            since = since + 1 if held and since is not None else 0 if held else None
            if ready and not there:
                latencies.add(since + 1)
            write, read = rng.random() < writes, there and ready and rng.random() < reads
            ctx.set(dut.w_en, write)
            ctx.set(dut.w_data, cycle)
            ctx.set(dut.r_en, read)
            taken = write and ctx.get(dut.w_rdy)
            if there:
                assert ready and ctx.get(dut.r_data) == held[0]
            there = ready and not read
            if read:
                held.popleft()
                since = None
                seen += 1
            await ctx.tick()
            if taken:
                held.append(cycle)

    simulate(dut, bench)
    assert seen > CYCLES // 10 and latencies == {2}
    if writes == reads == 1.0:
        assert CYCLES - 9 <= 3 * seen <= CYCLES
    else:
        assert levels == {0, 1, 2}
