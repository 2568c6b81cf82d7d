"""Epilogue lanes against docs/machine.md's steps, and a few elements by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest
from adagp.rtl.drain.epilogue import EpilogueLane
from adagp.spec.commands import CMode
from adagp.spec.presets import preset
from bench import seeded, simulate

CONFIG = preset("tiny")


def requantise(v, shift):
    limit = 2 ** (CONFIG.acc_width - 1) - 1
    return max(-limit, min(limit, round(Fraction(v) / Fraction(2) ** shift)))


def element(x, shift, bias, c, shift_c, mode, relu, sign=1):
    x = requantise(x, shift) + bias
    if mode in (CMode.ADD, CMode.ADD_MASK):
        x += sign * requantise(c, shift_c)
    if relu:
        x = max(x, 0)
    if (mode == CMode.MASK and c <= 0) or (mode == CMode.ADD_MASK and c == -32768):
        x = 0
    out = max(-32767, min(32767, x))
    return out, abs(x), int(out != x)


def run(items, shift_c, relu, subtract=None):
    """Items (x, shift, bias, c, mode), one a cycle; a list of (o, magnitude, saturated).

    ``subtract``: what a lane that can is told; None: one that can't.
    """
    dut = EpilogueLane(CONFIG if subtract is None else replace(CONFIG, variant="low"))
    seen = []

    async def bench(ctx):
        ctx.set(dut.shift_c, shift_c)
        ctx.set(dut.relu, relu)
        if subtract is not None:
            ctx.set(dut.subtract, subtract)
        for n in range(len(items) + dut.LATENCY):
            if n < len(items):
                x, shift, _, c, mode = items[n]
                ctx.set(dut.x, x)
                ctx.set(dut.shift, shift)
                ctx.set(dut.c, c)
                ctx.set(dut.add, mode in (CMode.ADD, CMode.ADD_MASK))
                ctx.set(dut.masked, mode in (CMode.MASK, CMode.ADD_MASK))
            if 0 <= n - dut.BIAS_LATENCY < len(items):
                ctx.set(dut.bias, items[n - dut.BIAS_LATENCY][2])
            if n >= dut.LATENCY:
                seen.append((ctx.get(dut.o), ctx.get(dut.magnitude), ctx.get(dut.saturated)))
            await ctx.tick()

    simulate(dut, bench)
    return seen


def test_by_hand():
    items = [
        (5, 1, 0, 0, CMode.NONE), (7, 1, 10, 3, CMode.ADD), (-100, 0, 0, 0, CMode.MASK), (-100, 0, 0, 1, CMode.MASK),
        (1 << 20, 0, 0, 0, CMode.NONE), (-(1 << 20), 4, 0, -1, CMode.ADD),
        (7, 1, 10, -32768, CMode.ADD_MASK), (7, 1, 10, -1, CMode.ADD_MASK), (7, 1, 10, 0, CMode.ADD_MASK),
    ]  # fmt: skip
    expected = [(2, 2, 0), (26, 26, 0), (0, 0, 0), (-100, 100, 0), (32767, 1 << 20, 1), (-32767, 65540, 1)]
    expected += [(0, 0, 0), (10, 10, 0), (14, 14, 0)]
    assert run(items, shift_c=-2, relu=0) == expected


@pytest.mark.parametrize("subtract", [None, 0, 1])
@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("shift_c", [-31, -3, 0, 2, 31])
def test_random(shift_c, relu, subtract):
    rng = seeded(shift_c + relu)
    items = []
    for _ in range(300):
        bits = rng.randrange(1, CONFIG.acc_width)
        most = (1 << (CONFIG.acc_width - 1)) - 1
        x, bias = (rng.choice((rng.randint(-1 << bits, 1 << bits), most, -most, 0)) for _ in range(2))
        x, bias = max(-most, min(most, x)), rng.choice((0, bias >> 40, max(-most, min(most, bias))))
        c = rng.choice((0, 1, -1, 32767, -32767, -32768, rng.randint(-32767, 32767)))
        items.append((x, rng.choice((bits - 14, rng.randint(-16, 63))), bias, c, rng.choice(list(CMode))))
    items = [(x, max(-16, shift), *rest) for x, shift, *rest in items]
    seen = run(items, shift_c, relu, subtract)
    sign = -1 if subtract else 1
    assert seen == [element(x, shift, bias, c, shift_c, mode, relu, sign) for x, shift, bias, c, mode in items]
    assert len(seen) == 300
