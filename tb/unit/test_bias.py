"""Bias memory: elements in, words or single elements out."""

from dataclasses import replace

import pytest
from adagp.rtl.bias import BiasMemory
from adagp.spec.presets import preset
from bench import seeded, simulate


@pytest.mark.parametrize("cols", [4, 5, 15])
def test_words_and_elements(cols):
    config = replace(preset("tiny"), cols=cols)
    rng = seeded(cols)
    dut = BiasMemory(config)
    width = config.acc_width
    halves = [[None] * config.bias_elements for _ in range(2)]

    async def write(ctx, half, count):
        for n in range(count):
            while rng.random() < 0.3:
                await ctx.tick()
            halves[half][n] = rng.randint(-(1 << width - 1), (1 << width - 1) - 1)
            ctx.set(dut.valid, 1)
            ctx.set(dut.half, half)
            ctx.set(dut.start, n == 0)
            ctx.set(dut.data, halves[half][n])
            await ctx.tick()
            ctx.set(dut.valid, 0)

    async def bench(ctx):
        await write(ctx, 0, config.bias_elements)
        await write(ctx, 1, cols + 2)
        await write(ctx, 0, 3)
        asked = []
        seen = 0
        for n in range(200 + dut.LATENCY):
            half, word, lane, serial = rng.randrange(2), rng.randrange(64), rng.randrange(cols), rng.randrange(2)
            if half:
                word = 0
            ctx.set(dut.r_half, half)
            ctx.set(dut.r_word, word)
            ctx.set(dut.r_lane, lane)
            ctx.set(dut.r_serial, serial)
            asked.append([halves[half][word * cols + (lane if serial else n)] for n in range(cols)])
            if n >= dut.LATENCY:
                assert list(ctx.get(dut.o)) == asked[n - dut.LATENCY]
                seen += 1
            await ctx.tick()
        assert seen == 200

    simulate(dut, bench)
