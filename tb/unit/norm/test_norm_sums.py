"""Sums of channels against Python's: random orders, repeated channels, restarts, stalls."""

import pytest
from adagp.rtl.norm.norm_sums import NormSums
from bench import seeded, simulate


def test_too_few_channels_are_refused():
    with pytest.raises(ValueError, match="at least 2, not 1"):
        NormSums(1)


@pytest.mark.parametrize("stall", [0, 0.4])
def test_sums_of_random_channels(stall):
    rng = seeded(int(stall * 10))
    channels, dut = 13, NormSums(13)
    expected, checked = {}, []

    async def bench(ctx):
        for _ in range(30):
            for step in range(rng.randint(1, 80)):
                channel = rng.choice((rng.randrange(channels), step % channels, 3))
                begins = channel not in expected or rng.random() < 0.1
                values = [rng.randint(-(1 << 57), 1 << 57), rng.randint(-(1 << 57), 1 << 57)]
                before = (0, 0) if begins else expected[channel]
                expected[channel] = tuple(a + b for a, b in zip(before, values, strict=True))
                while rng.random() < stall:
                    await ctx.tick()
                payload = {
                    "channel": channel,
                    "begins": begins,
                    "sums": dict(zip(("first", "second"), values, strict=True)),
                }
                ctx.set(dut.i.payload, payload)
                ctx.set(dut.i.valid, 1)
                await ctx.tick().until(dut.i.ready)
                ctx.set(dut.i.valid, 0)
            while not ctx.get(dut.settled):
                await ctx.tick()
            for channel, sums in expected.items():
                ctx.set(dut.r_channel, channel)
                ctx.set(dut.r_en, 1)
                await ctx.tick()
                ctx.set(dut.r_en, 0)
                assert (ctx.get(dut.sums.first), ctx.get(dut.sums.second)) == sums
                checked.append(channel)

    simulate(dut, bench)
    assert len(checked) > 200 and len(expected) == channels
