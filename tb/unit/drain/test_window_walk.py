"""WindowWalk against the windows of whole images: tiles of several images, parts of one, extents of 1."""

import pytest
from adagp.rtl.drain.window_walk import WindowWalk
from adagp.spec.presets import preset
from bench import seeded, simulate


def windows(at, extent):
    """Bits of the windows that a place lies in: of half the extent each, both if there is only one place."""
    size = extent // 2
    return 3 if size == 0 else (at < size) | (size <= at < 2 * size) << 1


def test_tiles():
    rng, dut, steps = seeded(4), WindowWalk(preset("tiny")), 0

    async def bench(ctx):
        nonlocal steps
        for _ in range(60):
            width, height = rng.choice((1, 2, 3, 5, 8)), rng.choice((1, 2, 3, 4, 7))
            row = rng.randrange(height)
            rows = rng.randint(1, height - row)  # of one image; the walk goes on with the next image's same rows
            d = {"width": width, "height": height, "row": row, "rows": rows}
            for name, value in d.items():
                ctx.set(getattr(dut.d, name), value)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            pixels = [(y, x) for y in range(row, row + rows) for x in range(width)]
            for n in range(rng.randint(1, 3) * len(pixels) + 1):
                while rng.random() < 0.3:
                    ctx.set(dut.step, 0)
                    await ctx.tick()
                ctx.set(dut.step, 1)
                await ctx.tick()
                ctx.set(dut.step, 0)
                y, x = pixels[n % len(pixels)]
                assert (ctx.get(dut.rows), ctx.get(dut.columns)) == (windows(y, height), windows(x, width))
                steps += 1

    simulate(dut, bench)
    assert steps > 500


@pytest.mark.parametrize(("extent", "expected"), [(1, [3]), (2, [1, 2]), (3, [1, 2, 0]), (5, [1, 1, 2, 2, 0])])
def test_windows_by_hand(extent, expected):
    assert [windows(at, extent) for at in range(extent)] == expected
