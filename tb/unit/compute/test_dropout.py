"""Dropout: masks of vectors by their definition, for designs of any width, and what the pool unit makes of them."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.rtl.compute.dropout import Dropout
from adagp.rtl.compute.pool import Pool
from adagp.spec.microcode.descriptors import VectorMode
from adagp.spec.presets import preset
from bench import seeded, simulate, sink, source
from dropped_elements import number

TINY = replace(preset("tiny"), dropout=True)
CONFIGS = {rows: replace(TINY, rows=rows) for rows in (2, 4, 7, 16)}
BLOCK_CYCLES = 9


def some_job(rng):
    """A job: pixels whose channels begin and end anywhere in a block."""
    return {
        "probability": rng.choice((1, 1 << 15, 65535, rng.randint(1, 65535))), "layer": rng.getrandbits(16),
        "pixel": rng.choice((0, rng.getrandbits(12), (1 << 25) - 2)), "first": rng.choice((0, 8, rng.randrange(65000))),
        "channels": rng.randint(1, 40),
    }  # fmt: skip


def some_key(rng):
    return {"seed": rng.getrandbits(32), "batch": rng.choice((0, 1, rng.getrandbits(32)))}


def stays(job, key, pixels):
    """For each pixel and channel of a job True if it stays; all do without a probability."""
    channels = range(job["first"], job["first"] + job["channels"])
    return [
        [number(job["pixel"] + at, c, job["layer"], **key) >= job["probability"] for c in channels]
        for at in range(pixels)
    ]


def vectors(job, key, pixels, rows):
    """The masks of a job's vectors, each as the bits of the lanes that count."""
    found = []
    for row in stays(job, key, pixels):
        found += [row[first : first + rows] for first in range(0, len(row), rows)]
    return found


@pytest.mark.parametrize("rows", CONFIGS)
@pytest.mark.parametrize("stall", [0, 0.5])
def test_masks(rows, stall):
    """Jobs begin anew at any moment of the one before; some drop nothing."""
    dut, rng, seen, dropped = Dropout(CONFIGS[rows]), seeded(51), 0, 0

    async def bench(ctx):
        nonlocal seen, dropped
        for number_of_job in range(14):
            job, key = some_job(rng), some_key(rng)
            if number_of_job % 5 == 3:
                job["probability"] = 0
            if number_of_job % 5 in (1, 2):  # that of the first element, which isn't below, or the one after
                job["probability"] = number(job["pixel"], job["first"], job["layer"], **key) + number_of_job % 5 - 1
            ctx.set(dut.job, job)
            ctx.set(dut.key, key)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            ctx.set(dut.job, some_job(rng))
            expected = vectors(job, key, 3, rows)
            expected = expected[: rng.randint(1, len(expected))]
            found = await sink(ctx, dut.o, len(expected), rng, stall)
            for got, want in zip(found, expected, strict=True):
                assert [bool(got >> lane & 1) for lane in range(len(want))] == want
                seen, dropped = seen + len(want), dropped + want.count(False)

    simulate(dut, bench)
    assert seen > 200 and 0 < dropped < seen


@pytest.mark.parametrize(("rows", "channels"), [(4, 16), (4, 19), (12, 24)])
def test_a_block_takes_as_long_as_its_hash(rows, channels):
    config, rng, gone = replace(TINY, rows=rows), seeded(52), []
    dut, pixels = Dropout(config), 6
    job = {"probability": 1 << 15, "layer": 3, "pixel": 7, "first": 0, "channels": channels}

    async def bench(ctx):
        ctx.set(dut.job, job)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        gone.extend(await sink(ctx, dut.o, pixels * -(-channels // rows), rng, 0))

    simulate(dut, bench, limit=BLOCK_CYCLES * (pixels * -(-channels // 8) + 1) + 8)
    assert len(gone) == pixels * -(-channels // rows)


@pytest.mark.parametrize("rows", [4, 7])
@pytest.mark.parametrize("stall", [0, 0.4])
def test_sums_that_are_dropped(rows, stall):
    """SUMs of a tap or two with dropout and without, and MAX between them, which never drops."""
    config, rng = CONFIGS[rows], seeded(53)
    dut, key = Pool(config), some_key(rng)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    jobs, drops, given, expected, zeros = [], [], [], [], 0
    for mode, n_taps, drawn in (("SUM", 1, 1), ("MAX", 2, 0), ("SUM", 2, 1), ("SUM", 1, 0), ("SUM", 1, 1)):
        drop, pixels = {**some_job(rng), "probability": drawn * 30000}, 4
        mask = [row + [True] * (rows - len(row)) for row in vectors(drop, key, pixels, rows)]
        a = numbers.integers(1, 1000, (len(mask), n_taps, rows))
        jobs.append({"mode": VectorMode[mode].value, "n_taps": n_taps, "mantissa": 3 if mode == "SUM" else 1})
        drops.append(drop)
        flat = a.reshape(-1, rows).tolist()
        given += [{"data": row, "end_walk": row is flat[-1]} for row in flat]
        for window, bits in zip(a, mask, strict=True):
            if mode == "MAX":
                expected += [window.max(axis=0).tolist(), (1 + window.argmax(axis=0)).tolist()]
            else:
                expected.append(np.where(bits, 3 * window.sum(axis=0), 0).tolist())
                zeros += bits.count(False)

    async def give_jobs(ctx):
        ctx.set(dut.key, key)
        for job, drop in zip(jobs, drops, strict=True):
            ctx.set(dut.drop, drop)
            await source(ctx, dut.job, [job], rng, stall)

    found = []

    async def collect(ctx):
        found.extend(await sink(ctx, dut.o, len(expected), rng, stall))

    simulate(dut, give_jobs, lambda ctx: source(ctx, dut.a, given, rng, stall), collect)
    lanes = lanes_of(jobs, drops, rows)
    for got, want, n in zip(found, expected, lanes, strict=True):
        assert list(got)[:n] == want[:n]
    assert zeros > 20


def lanes_of(jobs, drops, rows):
    """Lanes of each result that count: after a pixel's last channel the mask is undefined."""
    for job, drop in zip(jobs, drops, strict=True):
        groups = [min(rows, drop["channels"] - first) for first in range(0, drop["channels"], rows)] * 4
        for n in groups:
            yield from [rows, rows] if job["mode"] == VectorMode.MAX.value else [n if drop["probability"] else rows]
