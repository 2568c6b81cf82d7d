"""The counter of batches and its ring against plain Python, while the host writes registers at any time."""

from adagp.rtl.control.batch_counter import BatchCounter
from bench import seeded, simulate

WORD = (1 << 32) - 1


def test_ring():
    """A batch's end counts with RING_COUNT as it was a cycle before; the index moves a cycle behind it, unless it was
    written in one of the two."""
    rng = seeded(72)
    dut = BatchCounter()
    seen = {"over": 0, "next": 0, "written": 0, "address": 0, "changed": 0}

    async def bench(ctx):
        count, count_before, index, advance, since, stands, pause = 0, 0, 0, None, 0, -10_000, 5
        base, stride = rng.getrandbits(32), rng.getrandbits(32)
        ctx.set(dut.ring_base, base)
        ctx.set(dut.ring_stride, stride)
        for _ in range(6000):
            ends = since > pause
            if ends:
                pause = rng.choice((1, 2, 3, 50))
            writes = rng.random() < 0.02
            if rng.random() < 0.02 or (ends and rng.random() < 0.3):
                count = rng.choice((0, 1, 2, 3, 5, WORD))
            value = rng.choice((0, 1, 2, 4, WORD))
            for port, now in ((dut.ring_count, count), (dut.batch_end, ends), (dut.set_ring_index, writes)):
                ctx.set(port, now)
            ctx.set(dut.value, value)
            assert ctx.get(dut.ring_index) == index
            if stands > 2 and ctx.get(dut.located) and not ends:
                assert ctx.get(dut.ring_address) == (base + index * stride) & WORD
                seen["address"] += 1
            following = index
            if advance is not None:
                following = advance
                seen["over" if advance == 0 else "next"] += 1
            advance = None
            if ends and not writes:
                advance = index + 1 if index + 1 < count_before else 0
                seen["changed"] += count != count_before
            if writes:
                following = value
                advance = None
                seen["written"] += 1
                stands = -10_000  # nobody locates it again before a batch's end
            if ends:
                stands = 0 if not writes else -10_000
            index, count_before = following, count
            since, stands = 0 if ends else since + 1, stands + 1
            await ctx.tick()

    simulate(dut, bench, limit=10_000)
    assert min(seen.values()) > 20, seen
