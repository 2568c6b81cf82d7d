"""Bias memory: elements in, words or single elements out."""

from dataclasses import replace

import pytest
from adagp.rtl.drain.bias import BiasMemory
from adagp.spec.presets import preset
from bench import seeded, simulate

N_READS = 200


@pytest.mark.parametrize(("cols", "lanes"), [(4, 0), (5, 0), (15, 0), (5, 2)])
def test_words_and_elements(cols, lanes):
    """Tiles of all lengths modulo a word: the next one begins at element 0 wherever the last one ended."""
    config = replace(preset("tiny"), cols=cols, epilogue_lanes=lanes)
    rng = seeded(cols)
    dut = BiasMemory(config)
    width, n_words = config.acc_width, config.bias_elements // cols
    halves = [[None] * config.bias_elements for _ in range(2)]

    async def write(ctx, half, count):
        for n in range(count):
            while rng.random() < 0.3:
                ctx.set(dut.start, rng.randrange(2))  # means nothing without valid
                await ctx.tick()
            halves[half][n] = rng.randint(-(1 << width - 1), (1 << width - 1) - 1)
            ctx.set(dut.valid, 1)
            ctx.set(dut.half, half)
            ctx.set(dut.start, n == 0)
            ctx.set(dut.data, halves[half][n])
            await ctx.tick()
            ctx.set(dut.valid, 0)

    async def read(ctx, count):
        """``count`` random reads, one a cycle, near element 0 more often than elsewhere."""
        asked, none = [], []
        seen = 0
        for n in range(count + dut.LATENCY):
            half, lane, serial = rng.randrange(2), rng.randrange(cols), rng.randrange(2)
            word = rng.choice((0, 1, rng.randrange(n_words)))
            ctx.set(dut.r_half, half)
            ctx.set(dut.r_word, word)
            ctx.set(dut.r_lane, lane)
            ctx.set(dut.r_serial, serial)
            group = rng.randrange(config.folds(cols)) if lanes else 0
            if lanes:
                ctx.set(dut.r_group, group)
            first, read = group * lanes, len(dut.o)
            none.append(rng.random() < 0.3)
            ctx.set(dut.r_none, none[-1])
            here = [lane] * read if serial else range(cols)[first : first + read]
            asked.append([halves[half][word * cols + n] for n in here])
            if n >= dut.LATENCY:
                wanted = [0 if none[n - 1] else value for value in asked[n - dut.LATENCY]]
                assert list(ctx.get(dut.o))[: len(wanted)] == wanted
                seen += 1
            await ctx.tick()
        return seen

    async def bench(ctx):
        seen = 0
        for half in range(2):
            await write(ctx, half, config.bias_elements)
        for length in range(1, cols + 3):
            await write(ctx, rng.randrange(2), length)
            seen += await read(ctx, N_READS // cols)
        assert seen == (cols + 2) * (N_READS // cols) > 0

    simulate(dut, bench)


@pytest.mark.parametrize(("rows", "cols"), [(4, 4), (7, 5), (3, 6)])
def test_words_of_either_size(rows, cols):
    """Tiles of the pool unit have ``rows`` biases to a word, those of the array ``cols``."""
    config = replace(preset("tiny"), rows=rows, cols=cols, depthwise=True)
    rng = seeded(10 * rows + cols)
    dut = BiasMemory(config)

    async def bench(ctx):
        seen = 0
        ctx.set(dut.r_none, 0)
        for _ in range(12):
            vector, half = rng.randrange(2), rng.randrange(2)
            lanes = rows if vector else cols
            values = [rng.randint(-1000, 1000) for _ in range(rng.randint(1, config.bias_words * lanes))]
            for n, value in enumerate(values):
                ctx.set(dut.valid, 1)
                ctx.set(dut.vector, vector)
                ctx.set(dut.half, half)
                ctx.set(dut.start, n == 0)
                ctx.set(dut.data, value)
                await ctx.tick()
            ctx.set(dut.valid, 0)
            ctx.set(dut.vector, rng.randrange(2))
            ctx.set(dut.r_half, half)
            for word in range(len(values) // lanes):
                ctx.set(dut.r_word, word)
                await ctx.tick().repeat(dut.LATENCY)
                assert list(ctx.get(dut.o))[:lanes] == values[word * lanes : (word + 1) * lanes]
                seen += 1
        assert seen > 0

    simulate(dut, bench)
