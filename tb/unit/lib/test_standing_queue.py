"""StandingQueue against a plain one."""

from collections import deque

import pytest
from adagp.rtl.lib.standing_queue import StandingQueue
from bench import seeded, simulate


@pytest.mark.parametrize(("writes", "reads"), [(1.0, 1.0), (0.9, 0.3), (0.3, 0.9)])
def test_random(writes, reads):
    """In order, none lost, none twice; two fit; a cycle from one end to the other."""
    rng, dut = seeded(7), StandingQueue(16)
    held, seen, levels = deque(), 0, set()

    async def bench(ctx):
        nonlocal seen
        stood = item = 0
        for _ in range(600):
            level = ctx.get(dut.level)
            levels.add(level)
            assert level == len(held) and ctx.get(dut.r_rdy) == bool(held) and ctx.get(dut.w_rdy) == (level < 2)
            write = stood and ctx.get(dut.w_rdy) and rng.random() < writes
            read = ctx.get(dut.r_rdy) and rng.random() < reads
            ctx.set(dut.w_en, write)
            ctx.set(dut.w_data, item)
            ctx.set(dut.r_en, read)
            if read:
                assert ctx.get(dut.r_data) == held.popleft()
                seen += 1
            stood = ctx.get(dut.w_rdy) and not write
            await ctx.tick()
            if write:
                held.append(item)
                item = rng.getrandbits(16)

    simulate(dut, bench)
    assert seen > 120 and (reads >= writes or max(levels) == 2)
