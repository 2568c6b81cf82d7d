"""BlockMemory against a plain list: parts of words, kept read data, words that are spoilt on collisions."""

import pytest
from adagp.rtl.lib.block_memory import BlockMemory
from bench import seeded, simulate

DEPTH, WIDTH = 11, 12


@pytest.mark.parametrize("granularity", [None, 4])
def test_reads_and_writes(granularity):
    rng = seeded(granularity or 0)
    n_parts = WIDTH // (granularity or WIDTH)
    init = [rng.getrandbits(WIDTH) for _ in range(5)]
    dut = BlockMemory(WIDTH, DEPTH, granularity, init)
    words = init + [0] * (DEPTH - len(init))
    seen = {"collided": 0, "kept": 0, "read": 0}

    async def bench(ctx):
        expected = None
        for _ in range(4000):
            reads, en = rng.random() < 0.6, rng.getrandbits(n_parts) if rng.random() < 0.6 else 0
            r_addr, w_addr, w_data = rng.randrange(DEPTH), rng.randrange(DEPTH), rng.getrandbits(WIDTH)
            for port, value in (
                (dut.r_en, reads), (dut.r_addr, r_addr), (dut.w_en, en), (dut.w_addr, w_addr), (dut.w_data, w_data)
            ):  # fmt: skip
                ctx.set(port, value)
            await ctx.tick()
            if reads:
                collides = en and r_addr == w_addr
                expected = words[r_addr] ^ (1 << WIDTH) - 1 if collides else words[r_addr]
                seen["collided" if collides else "read"] += 1
            elif expected is not None:
                seen["kept"] += 1
            for part in range(n_parts):
                if en >> part & 1:
                    mask = ((1 << WIDTH // n_parts) - 1) << part * (WIDTH // n_parts)
                    words[w_addr] = words[w_addr] & ~mask | w_data & mask
            if expected is not None:
                assert ctx.get(dut.r_data) == expected

    simulate(dut, bench)
    assert min(seen.values()) > 30, seen
