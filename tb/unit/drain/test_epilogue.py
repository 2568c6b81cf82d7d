"""Epilogue lanes against docs/machine.md's steps, and a few elements by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest
from adagp.rtl.drain.epilogue import EpilogueLane, result_latency
from adagp.spec.commands import CMode
from adagp.spec.presets import preset
from bench import seeded, simulate

CONFIG = preset("tiny")


def requantise(v, shift, width):
    limit = 2 ** (width - 1) - 1
    return max(-limit, min(limit, round(Fraction(v) / Fraction(2) ** shift)))


def element(x, shift, bias, c, shift_c, mode, relu, sign=1, bound=None, slope=0, width=CONFIG.acc_width):
    x = requantise(x, shift, width) + bias
    if mode in (CMode.ADD, CMode.ADD_MASK):
        x += sign * requantise(c, shift_c, width)
    low = (relu and x < 0) or (mode == CMode.MASK and c <= 0) or (mode == CMode.ADD_MASK and c == -32768)
    if (low and not slope) or (mode == CMode.MASK and bound is not None and c >= bound):
        x = 0
    magnitude = abs(x)
    if bound is not None and mode != CMode.MASK:
        x = min(x, bound)
    out = max(-32767, min(32767, x))
    saturated = int(out != x)
    return round(Fraction(out * slope, 1 << 16)) if low and slope else out, magnitude, saturated


def run(items, shift_c, relu, subtract=None, clamp=None, width=CONFIG.acc_width):
    """Items (x, shift, bias, c, mode), one a cycle; a list of (o, magnitude, saturated).

    ``subtract``: what a lane that can is told; None: one that can't. ``clamp``: (bound, slope), likewise.
    """
    config = CONFIG if subtract is None else replace(CONFIG, variant="low")
    config = replace(config, clamps=clamp is not None, acc_width=width)
    dut = EpilogueLane(config)
    seen, outs = [], []
    latency = result_latency(config)

    async def bench(ctx):
        ctx.set(dut.shift_c, shift_c)
        ctx.set(dut.relu, relu)
        if subtract is not None:
            ctx.set(dut.subtract, subtract)
        if clamp is not None:
            bound, slope = clamp
            ctx.set(dut.bound, bound or 0)
            ctx.set(dut.cut, bound is not None)
            ctx.set(dut.slope, slope)
            await ctx.tick()
        for n in range(len(items) + latency):
            if n < len(items):
                x, shift, _, c, mode = items[n]
                ctx.set(dut.x, x)
                ctx.set(dut.shift, shift)
                ctx.set(dut.c, c)
                ctx.set(dut.add, mode in (CMode.ADD, CMode.ADD_MASK))
                ctx.set(dut.masked, mode in (CMode.MASK, CMode.ADD_MASK))
            if 0 <= n - dut.BIAS_LATENCY < len(items):
                ctx.set(dut.bias, items[n - dut.BIAS_LATENCY][2])
            if clamp is not None and 0 <= n - dut.LATENCY + 1 < len(items):
                ctx.set(dut.bounded, clamp[0] is not None and items[n - dut.LATENCY + 1][4] != CMode.MASK)
            if 0 <= n - dut.LATENCY < len(items):
                seen.append((ctx.get(dut.magnitude), ctx.get(dut.saturated)))
            if n >= latency:
                outs.append(ctx.get(dut.o))
            await ctx.tick()

    simulate(dut, bench)
    return [(out, *others) for out, others in zip(outs, seen, strict=True)]


def test_by_hand():
    items = [
        (5, 1, 0, 0, CMode.NONE), (7, 1, 10, 3, CMode.ADD), (-100, 0, 0, 0, CMode.MASK), (-100, 0, 0, 1, CMode.MASK),
        (1 << 20, 0, 0, 0, CMode.NONE), (-(1 << 20), 4, 0, -1, CMode.ADD),
        (7, 1, 10, -32768, CMode.ADD_MASK), (7, 1, 10, -1, CMode.ADD_MASK), (7, 1, 10, 0, CMode.ADD_MASK),
    ]  # fmt: skip
    expected = [(2, 2, 0), (26, 26, 0), (0, 0, 0), (-100, 100, 0), (32767, 1 << 20, 1), (-32767, 65540, 1)]
    expected += [(0, 0, 0), (10, 10, 0), (14, 14, 0)]
    assert run(items, shift_c=-2, relu=0) == expected


def random_items(rng, modes, width=CONFIG.acc_width):
    items = []
    for _ in range(300):
        bits = rng.randrange(1, width)
        most = (1 << (width - 1)) - 1
        x, bias = (rng.choice((rng.randint(-1 << bits, 1 << bits), most, -most, 0)) for _ in range(2))
        x, bias = max(-most, min(most, x)), rng.choice((0, bias >> 40, max(-most, min(most, bias))))
        c = rng.choice((0, 1, -1, 32767, -32767, -32768, rng.randint(-32767, 32767)))
        items.append((x, rng.choice((bits - 14, rng.randint(-16, 63))), bias, c, rng.choice(modes)))
    return [(x, max(-16, shift), *rest) for x, shift, *rest in items]


@pytest.mark.parametrize(
    ("subtract", "width"), [(None, CONFIG.acc_width), (0, CONFIG.acc_width), (1, CONFIG.acc_width), (None, 56), (1, 56)]
)
@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("shift_c", [-31, -3, 0, 2, 31])
def test_random(shift_c, relu, subtract, width):
    items = random_items(seeded(shift_c + relu), list(CMode), width)
    seen = run(items, shift_c, relu, subtract, width=width)
    sign = -1 if subtract else 1
    assert seen == [
        element(x, shift, bias, c, shift_c, mode, relu, sign, width=width) for x, shift, bias, c, mode in items
    ]
    assert len(seen) == 300


@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("bound", [None, 0, 1, 5000, 32766, 32767])
@pytest.mark.parametrize("slope", [0, 1, 655, 1 << 15, 65535])
@pytest.mark.parametrize("width", [CONFIG.acc_width, 56])
def test_bound_and_slope(bound, slope, relu, width):
    rng = seeded(slope + relu)
    near, items = (bound or 0, 5001, 32767), []
    for x, shift, bias, c, mode in random_items(rng, [CMode.NONE, CMode.MASK, CMode.ADD], width):
        x, c = x if rng.random() < 0.7 else rng.choice(near), rng.choice((c, c, bound or 0))
        items.append((x, shift, bias, c, mode))
    seen = run(items, -1, relu, clamp=(bound, slope), width=width)
    assert seen == [
        element(x, shift, bias, c, -1, mode, relu, bound=bound, slope=slope, width=width)
        for x, shift, bias, c, mode in items
    ]
    assert len(seen) == 300
