"""Banked memory against a plain list: reads that stall anywhere, writes of some bytes, the last bank shorter."""

import pytest
from adagp.rtl.memory.banked_memory import BankedMemory
from bench import seeded, simulate

WIDTH, N_CYCLES = 32, 800
ALL_BYTES = (1 << WIDTH // 8) - 1


def _mask(enables):
    return sum(0xFF << 8 * i for i in range(WIDTH // 8) if enables >> i & 1)


@pytest.mark.parametrize("depth", [16, 1024, 2600])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_words_come_in_order_as_last_written(depth, stall):
    """Reads and moves come independently; nothing is asked for that the cycle before has written."""
    dut = BankedMemory(WIDTH, depth)
    rng = seeded(depth)
    image: dict[int, int] = {}
    near_ends = {*range(4), *range(depth - 4, depth), *range(1020, 1028)}
    places = [place for place in sorted(near_ends) if place < depth]
    seen: set[int] = set()  # banks of words that were compared

    async def bench(ctx):
        first = second = written = None  # what is behind the banks, and shown: place and word
        for _ in range(N_CYCLES):
            known = [place for place in places if place in image and place != written]
            reads, moves = bool(known) and rng.random() >= stall, rng.random() >= stall
            place = rng.choice(known) if reads else rng.choice(places)
            ctx.set(dut.r_en, reads)
            ctx.set(dut.r_addr, place)
            ctx.set(dut.move, moves)
            second = first if moves else second
            first = (place, image[place]) if reads else first

            written, word = rng.choice(places), rng.getrandbits(WIDTH)
            enables = rng.getrandbits(WIDTH // 8) if written in image else ALL_BYTES
            ctx.set(dut.w_en, enables)
            ctx.set(dut.w_addr, written)
            ctx.set(dut.w_data, word)
            image[written] = image.get(written, 0) & ~_mask(enables) | word & _mask(enables)
            await ctx.tick()
            if second is not None:
                assert ctx.get(dut.r_data) == second[1]
                if moves:
                    seen.add(second[0] // 1024)

    simulate(dut, bench)
    assert seen == set(range(-(-depth // 1024)))
