"""BitLength against Python's int.bit_length, at every power of two and at random."""

import pytest
from adagp.rtl.lib.bit_length import BitLength
from bench import seeded, simulate


@pytest.mark.parametrize("width", [1, 4])
def test_a_width_without_stages_enough_is_refused(width):
    with pytest.raises(ValueError, match=f"not {width}"):
        BitLength(width)


@pytest.mark.parametrize("width", [5, 8, 15, 16, 33, 64])
def test_bit_lengths(width):
    rng = seeded(width)
    edges = [value for bit in range(width) for value in (1 << bit, (1 << bit) - 1)] + [(1 << width) - 1]
    values = edges + [rng.getrandbits(width) >> rng.randrange(width) for _ in range(200)]
    dut, seen = BitLength(width), []

    async def bench(ctx):
        for n in range(len(values) + dut.LATENCY):
            ctx.set(dut.i, values[n] if n < len(values) else rng.getrandbits(width))
            if n >= dut.LATENCY:
                seen.append(ctx.get(dut.o))
            await ctx.tick()

    simulate(dut, bench)
    assert seen == [value.bit_length() for value in values] and {0, width} <= set(seen)
