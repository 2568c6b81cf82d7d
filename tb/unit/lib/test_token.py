"""TokenCounter against a plain counter."""

import pytest
from adagp.rtl.lib.token import TokenCounter
from bench import seeded, simulate


@pytest.mark.parametrize("initial, maximum", [(-1, 2), (3, 2), (0, 0)])
def test_refuses(initial, maximum):
    with pytest.raises(ValueError, match=f"not {initial}, {maximum}"):
        TokenCounter(initial, maximum)


@pytest.mark.parametrize("initial, maximum", [(0, 1), (2, 2), (0, 3)])
def test_counts(initial, maximum):
    rng = seeded(maximum)
    dut = TokenCounter(initial, maximum)
    taken = 0

    async def bench(ctx):
        nonlocal taken
        count = initial
        for _ in range(500):
            assert ctx.get(dut.take.avail) == (count > 0)
            take = count > 0 and rng.random() < 0.5
            give = (count < maximum or take) and rng.random() < 0.5
            ctx.set(dut.take.take, take)
            ctx.set(dut.give, give)
            await ctx.tick()
            count += give - take
            taken += take

    simulate(dut, bench)
    assert taken > 100


@pytest.mark.parametrize("give, message", [(0, "taken"), (1, "given")])
def test_asserts(give, message):
    dut = TokenCounter(give, 1)

    async def bench(ctx):
        ctx.set(dut.give, give)
        ctx.set(dut.take.take, not give)
        await ctx.tick()

    with pytest.raises(AssertionError, match=message):
        simulate(dut, bench)
