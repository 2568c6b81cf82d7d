"""Banked memory against a plain list: reads that stall anywhere, writes of some bytes, the last bank shorter."""

import pytest
from adagp.rtl.banked_memory import BankedMemory
from bench import seeded, simulate

WIDTH, N_OPERATIONS = 32, 600


@pytest.mark.parametrize("depth", [16, 1024, 2600])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_words_come_in_order_as_last_written(depth, stall):
    dut = BankedMemory(WIDTH, depth)
    rng = seeded(depth)
    image: list[int | None] = [None] * depth
    recent: list[int] = []  # written in the last two cycles: what a read gives isn't said
    asked: list[int | None] = [None] * BankedMemory.READ_LATENCY
    places = [*range(min(depth, 4)), *range(max(0, depth - 4), depth), *range(1020, min(depth, 1028))]
    seen = 0

    async def write(ctx):
        place, value, bytes_ = rng.choice(places), rng.getrandbits(WIDTH), rng.getrandbits(WIDTH // 8)
        first = image[place] is None
        ctx.set(dut.w_addr, place)
        ctx.set(dut.w_data, value)
        ctx.set(dut.w_en, -1 if first else bytes_)
        mask = (1 << WIDTH) - 1 if first else sum(0xFF << (8 * i) for i in range(WIDTH // 8) if bytes_ >> i & 1)
        image[place] = ((image[place] or 0) & ~mask) | (value & mask)
        return place

    async def bench(ctx):
        nonlocal seen
        for _ in range(N_OPERATIONS):
            recent[:] = [*recent, await write(ctx)][-2:]
            known = [place for place in places if image[place] is not None and place not in recent]
            moves, reads = rng.random() >= stall, bool(known) and rng.random() < 0.7
            place = rng.choice(known) if reads else rng.choice(places)
            ctx.set(dut.move, moves)
            ctx.set(dut.r_en, moves)
            ctx.set(dut.r_addr, place)
            await ctx.tick()
            if moves:
                asked[:] = [image[place] if reads else None, *asked[:-1]]
            if asked[-1] is not None:
                assert ctx.get(dut.r_data) == asked[-1]
                seen += moves

    simulate(dut, bench)
    assert seen > N_OPERATIONS // 4
