"""The gate against golden/quality.py: exact sums of random and of synthetic layers, batch by batch."""

from math import isqrt

import numpy as np
from adagp.golden.quality import Quality, QualitySums, passes, quality_sums, votes
from adagp.rtl.control.cosine import Cosine
from adagp.rtl.control.quality_gate import Gate
from bench import seeded, simulate

SUM_MAX = (1 << 62) - 1
EXPONENTS = (-400, -17, -16, -15, -1, 0, 1, 15, 16, 17, 400)
"""Exponents of the error, relative to the target's; beyond 16 they are all the same."""


def layout(quality):
    """As the update unit gives it."""
    return {
        "layer": 7, **vars(quality.sums), "e_exponent": quality.e_exponent, "t_exponent": quality.t_exponent,
    }  # fmt: skip


def sums(rng, bits):
    """Sums that there are vectors for: et^2 <= ee * tt; often at that bound, or with dot products near 0."""
    ee, tt = (rng.getrandbits(rng.randrange(bits + 1)) for _ in "et")
    most = isqrt(ee * tt)
    et = rng.choice((most, -most, rng.randint(-most, most), max(-most, min(most, -tt + rng.randint(-1, 1)))))
    return QualitySums(ee, et, tt, rng.getrandbits(rng.randrange(1, 33)))


def random_layer(rng):
    exponent = rng.randint(-100, 100)
    offset = rng.choice((*EXPONENTS, rng.randint(-18, 18)))
    return Quality(sums(rng, rng.choice((4, 17, 40, 62))), exponent + offset, exponent)


def vectors(rng, noise):
    """A layer of real vectors: a target and a prediction that is off by so much of it."""
    draw = np.random.default_rng(rng.getrandbits(32))
    t = np.round(draw.standard_normal(200) * 2000).astype(np.int64)
    e = np.round(draw.standard_normal(200) * 2000 * noise).astype(np.int64).clip(-32767, 32767)
    return Quality(quality_sums(e, t, 16), 3, 3)


def opposed(rng):
    """Large sums of an error that nearly cancels its target: what is left of them is small."""
    bits = rng.choice((61, rng.randint(20, 61)))
    tt = 1 << bits | rng.getrandbits(bits)
    predicted = rng.getrandbits(rng.randint(1, 40))
    dot = rng.randint(0, min(tt, isqrt(predicted * tt)))
    return Quality(QualitySums(tt - 2 * dot + predicted, dot - tt, tt, 1), 5, 5)


NEAR = Quality(QualitySums(4 * 34726 - 2 * 39031 + 36594, 39031 - 36594, 36594, 1), 0, 0)
"""A layer the square of whose dot product, 39031^2, is nearly 39283 times both norms (4 * 34726, 36594) and a power of
two: of 48 bits the last five differ. Found by trying."""


def at_the_bound(rng):
    """A layer without error, whose squared cosine is 1, and just that as the threshold, or a little more."""
    tt = rng.getrandbits(16) << rng.randrange(40) | 1 << 15
    exponent = rng.randint(-100, 100)
    return Quality(QualitySums(0, 0, tt, 1), exponent, exponent)


def threshold_value(threshold):
    mantissa, exponent = threshold
    return {"mantissa": mantissa, "exponent": exponent, "unused": 0, "in_use": 1}


def test_cosine():
    rng = seeded(41)
    dut = Cosine()
    said = {False: 0, True: 0}

    async def judge(ctx, layer, threshold):
        ctx.set(dut.quality, layout(layer))
        ctx.set(dut.threshold, threshold_value(threshold))
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        cycles = 1
        while not ctx.get(dut.done):
            cycles += 1
            assert cycles <= Cosine.CYCLES
            await ctx.tick()
        expected = passes(layer.sums, layer.e_exponent, layer.t_exponent, threshold)
        assert ctx.get(dut.passes) == expected, (layer, threshold)
        said[expected] += 1
        await ctx.tick()

    async def bench(ctx):
        for _ in range(150):
            threshold = rng.choice((0, 1, rng.getrandbits(16), 0xFFFF)), rng.choice((-16, rng.randint(-128, 127)))
            await judge(ctx, random_layer(rng), threshold)
        for _ in range(40):
            await judge(ctx, random_layer(rng), (rng.getrandbits(16), -16))
            await judge(ctx, vectors(rng, rng.choice((0.3, 1, 3))), (rng.getrandbits(16), -16))
            await judge(ctx, at_the_bound(rng), rng.choice(((1, 0), (1 << 15, -15), (0x8001, -15), (0xFFFF, -16))))
            for layer in (opposed(rng), opposed(rng)):
                await judge(ctx, layer, (rng.getrandbits(16), rng.choice((-16, rng.randint(-60, -16)))))
        for bit in range(16):  # a threshold of one bit isn't none
            layer = Quality(QualitySums(1000, 1, 1000 << 40, 1), 0, 0)
            await judge(ctx, Quality(QualitySums(1 << 40, 1, 1000, 1), 0, 0), (1 << bit, -bit))
            await judge(ctx, layer, (1 << bit, -bit))
        for exponent in range(-20, -14):
            await judge(ctx, NEAR, (39283, exponent))
        for ee, tt in ((0, 0), (0, SUM_MAX), (SUM_MAX, 0), (SUM_MAX, SUM_MAX), (1, 1)):
            for offset in EXPONENTS:
                most = isqrt(ee * tt)
                for et in {-most, 0, most}:
                    await judge(ctx, Quality(QualitySums(ee, et, tt, 1), offset, 0), (0x4000, -16))

        for offset in (15, 16, 17, 400):  # a squared cosine of a half where the exponents are taken as 16 apart
            for threshold in (0x5800, -16), (0xA800, -16):
                await judge(ctx, Quality(QualitySums(1000, 0, 1000 << 32, 1), offset, 0), threshold)
                await judge(ctx, Quality(QualitySums(1000 << 32, 0, 1000, 1), -offset, 0), threshold)

    simulate(dut, bench, limit=200_000)
    assert min(said.values()) > 60


def test_gate():
    """Votes and their verdict; batches without a quality, or without a threshold, leave the gate as it is."""
    rng = seeded(42)
    dut = Gate()
    seen = {False: 0, True: 0}
    kept = dropped = 0

    async def give(ctx, layer):
        ctx.set(dut.quality, layout(layer))
        ctx.set(dut.quality_valid, 1)
        await ctx.delay(1e-10)
        assert ctx.get(dut.busy)
        await ctx.tick()
        ctx.set(dut.quality_valid, 0)

    async def pulse(ctx, port):
        ctx.set(port, 1)
        await ctx.tick()
        ctx.set(port, 0)

    async def bench(ctx):
        nonlocal kept, dropped
        assert ctx.get(dut.open)
        open_ = True
        for _ in range(50):
            threshold = (rng.randrange(0x1000, 0xC000), -16)
            in_use = rng.random() < 0.8
            ctx.set(dut.threshold, threshold_value(threshold) | {"in_use": in_use})
            layers = [
                rng.choice((random_layer(rng), vectors(rng, rng.choice((0.5, 4))))) for _ in range(rng.randrange(5))
            ]
            for layer in layers:
                await give(ctx, layer)
            for _ in range(rng.randrange(300)):
                await ctx.tick()
            if rng.random() < 0.2:  # stopped in the middle
                late = rng.random() < 0.5  # and a layer with the stop
                ctx.set(dut.quality, layout(random_layer(rng)))
                ctx.set(dut.quality_valid, late)
                await pulse(ctx, dut.clear)
                ctx.set(dut.quality_valid, 0)
                await ctx.delay(1e-10)
                assert not ctx.get(dut.busy)
                layers = layers[:1]
                for layer in layers:
                    await give(ctx, layer)
                dropped += late
            while ctx.get(dut.busy):
                await ctx.tick()
            for _ in range(rng.randrange(1, 3)):  # twice is as once
                await pulse(ctx, dut.commit)
            if layers and in_use:
                open_ = votes(layers, threshold)
                seen[open_] += 1
            else:
                kept += 1
            assert ctx.get(dut.open) == open_
            if rng.random() < 0.3:
                open_ = bool(rng.randrange(2))
                ctx.set(dut.value, open_)
                await pulse(ctx, dut.set)
                assert ctx.get(dut.open) == open_
            await pulse(ctx, dut.clear)
            assert ctx.get(dut.open) == open_

    simulate(dut, bench)
    assert min(*seen.values(), kept) > 5 and dropped > 3
