"""The serial divider against Python's division, begun at random times."""

import pytest
from adagp.rtl.norm.serial_divide import SerialDivide
from bench import cycles_until, seeded, simulate


def test_quotients():
    rng = seeded(1)
    dut, results = SerialDivide(72, 25, 47), []

    async def bench(ctx):
        for _ in range(60):
            by = rng.choice((1, (1 << 25) - 1, rng.randrange(1, 1 << rng.randint(1, 25))))
            value = rng.choice((0, by * (1 << 47) - 1, rng.randrange(by << 47), rng.randrange(by << 20)))
            for _ in range(rng.randrange(4)):
                await ctx.tick()
            ctx.set(dut.i, value)
            ctx.set(dut.by, by)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            ctx.set(dut.by, 0)
            assert await cycles_until(ctx, dut.ready, 48) == 48 and ctx.get(dut.o) == value // by
            results.append(value // by)

    simulate(dut, bench)
    assert len(results) == 60 and len(set(results)) > 30


def test_a_dividend_that_is_too_wide_is_refused():
    with pytest.raises(ValueError, match="width must be at most 72, not 73"):
        SerialDivide(73, 25, 47)
