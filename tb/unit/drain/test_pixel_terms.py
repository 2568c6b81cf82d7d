"""PixelTerms against sums in plain Python: rows of vectors, pixels in several windows, masked lanes, fresh sums."""

import numpy as np
from adagp.rtl.drain.pixel_terms import PixelTerms
from adagp.rtl.drain.window_sums import N_WINDOWS
from adagp.spec.numerics import operand_max
from adagp.spec.presets import preset
from bench import seeded, simulate

CONFIG = preset("tiny")


def test_rows_of_vectors():
    rng, dut = seeded(9), PixelTerms(CONFIG)
    limit, lanes = operand_max(CONFIG.operand_width), CONFIG.cols
    given, expected, taken = [], [], []
    kept = {"fresh": 0, "windows": set()}

    async def collect(ctx):
        async for *_, valid, at, value, fresh in ctx.tick().sample(
            dut.term.valid, dut.term.at, dut.term.value, dut.term.fresh
        ):
            if valid:
                taken.append((at, value, fresh))

    async def bench(ctx):
        for _ in range(25):
            fresh, first_filter = rng.getrandbits(1), rng.randrange(CONFIG.n_filters - 8)
            ctx.set(dut.d.fresh, fresh)
            ctx.set(dut.d.at, N_WINDOWS * first_filter)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for row in range(rng.randint(1, 3)):
                first = bool(fresh and row == 0)  # the first row replaces the sums
                ctx.set(dut.clear, 1)
                await ctx.tick()
                ctx.set(dut.clear, 0)
                places = [(rng.randrange(4), rng.randrange(4)) for _ in range(lanes)]
                for rows, columns in places:
                    ctx.set(dut.rows, rows)
                    ctx.set(dut.columns, columns)
                    ctx.set(dut.locate, 1)
                    await ctx.tick()
                    ctx.set(dut.locate, 0)
                    while rng.random() < 0.2:
                        await ctx.tick()
                inside = np.array([[rows >> n // 2 & 1 and columns >> n % 2 & 1 for n in range(N_WINDOWS)]
                                   for rows, columns in places], dtype=bool)  # fmt: skip
                wanted = [n for n in range(N_WINDOWS) if first or inside[:, n].any()]
                await ctx.delay(1e-9)
                assert ctx.get(dut.wanted) == sum(1 << n for n in wanted)
                for vector in range(rng.randint(1, 6)):
                    values = np.array([rng.randint(-limit, limit) for _ in range(lanes)])
                    mask = rng.getrandbits(lanes)
                    ctx.set(dut.i.values, values.tolist())
                    ctx.set(dut.i.mask, mask)
                    ctx.set(dut.i.final, 1)
                    ctx.set(dut.valid, 1)
                    await ctx.tick()
                    ctx.set(dut.valid, 0)
                    used = np.array([mask >> lane & 1 for lane in range(lanes)], dtype=bool)
                    for n in wanted:
                        total = int(values[inside[:, n] & used].sum())
                        expected.append((N_WINDOWS * (first_filter + vector) + n, total, first))
                    given.append(len(wanted))
                    for _ in range(max(0, len(wanted) - 1) + (rng.random() < 0.5)):
                        await ctx.tick()
                kept["fresh"] += first
                kept["windows"].add(len(wanted))
                await ctx.tick().repeat(dut.latency + N_WINDOWS)

    simulate(dut, bench, background=[collect])
    assert taken == expected and len(expected) > 200
    assert kept["fresh"] > 3 and {N_WINDOWS} < kept["windows"]
