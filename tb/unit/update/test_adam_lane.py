"""Weights through Adam, and a command's scale, against exact rational arithmetic."""

from dataclasses import replace
from fractions import Fraction
from itertools import count, pairwise
from math import isqrt

import numpy as np
import pytest
from adagp.golden.adam import AdamExponents, adam
from adagp.golden.update import Hyper
from adagp.rtl.update.adam_factors import AdamScale
from adagp.rtl.update.adam_lane import FOLD, AdamLane
from adagp.spec.commands import Adam
from adagp.spec.presets import preset
from amaranth import Module
from amaranth.lib.wiring import Component, In
from bench import seeded, simulate

TINY = preset("tiny")
CONFIGS = {"tiny": TINY, "bytes": replace(TINY, operand_width=8, acc_width=32, port_width=128)}
GUARD = 8
COMMANDS = 15
EXPONENTS = ("eg", "ew", "ew_next", "em", "em_next", "es", "es_next")


def align(x, shift):
    limit = 2**55 - 1
    return max(-limit, min(limit, round(Fraction(x) * Fraction(2) ** max(-63, min(40, shift)))))


def rounded(x):
    return round(Fraction(x, 1 << GUARD))


def step(width, e, hyper, rate, weight):
    """New hi, lo, m and s, whether w, m and s saturate, the bit lengths of w, m and s's root before they do."""
    g, hi, lo, m, s = weight
    (b1, x1), (c1, y1), (b2, x2), (c2, y2), (epsilon, _) = (
        hyper[i] for i in (Adam.BETA1, Adam.REST1, Adam.BETA2, Adam.REST2, Adam.EPSILON)
    )
    free_m = rounded(
        align(b1 * m, x1 + e["em"] - e["em_next"] + GUARD) + align(c1 * g, y1 + e["eg"] - e["em_next"] + 16 + GUARD)
    )
    free_s = rounded(
        align(b2 * s, x2 + 2 * e["es"] - 2 * e["es_next"] + GUARD)
        + align(c2 * g * g, y2 + 2 * e["eg"] - 2 * e["es_next"] + 14 + GUARD)
    )
    new_m = max(-(2**31 - 1), min(2**31 - 1, free_m))
    new_s = min(2**44 - 1, free_s)
    root = max(isqrt(new_s), epsilon, 1)
    ratio = min(align(abs(new_m), e["em_next"] - e["es_next"] + 7) // root, 2**23 - 1) * (1 if new_m > 0 else -1)
    free_w = rounded(
        align(hi * 2**16 + lo, e["ew"] - e["ew_next"] + GUARD)
        - align(rate[0] * ratio, rate[1] - 16 + 16 - e["ew_next"] + GUARD)
    )
    limit = (2 ** (width - 1) - 1) * 2**16 + 0x7FFF
    new_w = max(-limit, min(limit, free_w))
    new_hi = (new_w + 0x8000) >> 16
    lengths = tuple(abs(x).bit_length() for x in (free_w, free_m, isqrt(free_s)))
    saturated = (int(new_w != free_w), int(new_m != free_m), int(new_s != free_s))
    return (new_hi, new_w - new_hi * 2**16, new_m, new_s, *saturated), lengths, (root, ratio)


class Pair(Component):
    """A lane and what makes its scale."""

    def __init__(self, config):
        self._lane, self._scale = AdamLane(config), AdamScale()
        members = {**self._lane.signature.members, **self._scale.signature.members}
        super().__init__({name: member for name, member in members.items() if name not in ("scale", "o", "term")})

    def elaborate(self, platform):
        m = Module()
        m.submodules.lane, m.submodules.scale = lane, scale = self._lane, self._scale
        m.d.comb += [lane.scale.eq(scale.o), scale.term.eq(lane.term)]
        for part in (lane, scale):
            for name in sorted(self.signature.members.keys() & part.signature.members.keys()):
                port, outer = getattr(part, name), getattr(self, name)
                m.d.comb += port.eq(outer) if self.signature.members[name].flow == In else outer.eq(port)
        return m


def command(rng):
    """Random exponents, table entries and rate: mostly such that the terms meet, now and then anything."""
    scale = rng.randint(-24, -8)
    e = {name: scale + rng.randint(-3, 3) for name in EXPONENTS}
    e["ew"] = rng.randint(-16, -10)
    e["ew_next"] = e["ew"] + rng.randint(-2, 2)
    hyper = [(rng.randrange(1 << 16), -16) for _ in Adam]
    beta = rng.choice((58982, 65470, rng.randrange(1, 1 << 16)))
    hyper[Adam.BETA2], hyper[Adam.REST2] = (beta, -16), (65536 - beta, -16)
    hyper[Adam.EPSILON] = (rng.choice((0, 1, 30, 65535, rng.randrange(1 << 16))), rng.randint(-128, 127))
    rate = (rng.randrange(1 << 16), rng.randint(-32, -16))
    if rng.random() < 0.3:
        e = {name: rng.randint(-128, 127) for name in EXPONENTS}
        hyper = [(mantissa, rng.randint(-128, 127)) for mantissa, _ in hyper]
        rate = (rate[0], rng.randint(-256, 255))
    return e, hyper, rate


def weights(rng, width, count):
    def some(most):
        value = rng.randint(-most, most)
        return rng.choice((value, value >> rng.randrange(most.bit_length()), most))

    limit = 2 ** (width - 1) - 1
    yield 0, some(limit), 0, rng.randint(-9, 9), 0  # its root is 0
    for n in range(1, count):
        g = some(limit) if n > 1 else -limit - 1
        yield g, some(limit), some(0x7FFF), some(2**31 - 1), abs(some(2**44 - 1))


def run(pair, rng, tasks):
    """Results of each command's weights, given as fast as they are taken, but now and then with a pause.

    A command follows when the lane is empty.
    """
    outputs = {"m": (), "s": (pair.o_s, pair.s_tag.final), "w": (pair.o_hi, pair.o_lo, pair.o_m, pair.w_tag.final)}
    seen = {kind: [] for kind in outputs}
    finals, taken, given = [], [], []
    cycles = count()

    async def cycle(ctx):
        now = next(cycles)
        for kind, ports in outputs.items():
            if ctx.get(getattr(pair, f"{kind}_valid")):
                reported = ctx.get(pair.saturated), ctx.get(pair.magnitude).bit_length()
                seen[kind].append((*(ctx.get(port) for port in ports), *reported))
                if kind == "w":
                    given.append(now)
        if ready := ctx.get(pair.ready):
            taken.append(now)
        await ctx.tick()
        return ready

    async def bench(ctx):
        for e, hyper, rate, group in tasks:
            ctx.set(pair.exponents, e)
            ctx.set(pair.hyper, [{"mantissa": mantissa, "exponent": exponent} for mantissa, exponent in hyper])
            ctx.set(pair.rate, dict(zip(("mantissa", "exponent"), rate, strict=True)))
            for weight in group:
                while rng.random() < 0.1:
                    ctx.set(pair.valid, 0)
                    assert not await cycle(ctx)
                for name, value in zip(("g", "hi", "lo", "m", "s"), weight, strict=True):
                    ctx.set(getattr(pair, name), value)
                finals.append(rng.randint(0, 1))
                ctx.set(pair.tag, {"final": finals[-1]})
                ctx.set(pair.valid, 1)
                while not await cycle(ctx):
                    pass
            ctx.set(pair.valid, 0)
            for _ in range(AdamLane.LATENCY):
                await cycle(ctx)

    simulate(pair, bench)
    assert {now - before for now, before in zip(given, taken, strict=True)} == {AdamLane.LATENCY - FOLD + 1}
    assert min(now - before for before, now in pairwise(taken)) == FOLD
    for (_, final, *_), (*_, w_final, _, _), expected in zip(seen["s"], seen["w"], finals, strict=True):
        assert final == w_final == expected
    return [
        ((hi, lo, m, s, w_cut, m_cut, s_cut), (w_length, m_length, (s_length + 1) // 2))  # its root is half as long
        for (m_cut, m_length), (s, _, s_cut, s_length), (hi, lo, m, _, w_cut, w_length)
        in zip(*(seen[kind] for kind in "msw"), strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_follow_adam(name):
    config, rng = CONFIGS[name], seeded(1)
    width = config.operand_width
    tasks = [(*command(rng), list(weights(rng, width, 60))) for _ in range(COMMANDS)]
    expected = [step(width, e, hyper, rate, weight) for e, hyper, rate, group in tasks for weight in group]
    assert run(Pair(config), rng, tasks) == [(results, lengths) for results, lengths, _ in expected]
    # All paths were taken: each saturation and its absence, roots above and at their floor, ratios between the ends.
    for place in (4, 5, 6):
        assert 20 < sum(results[place] for results, _, _ in expected) < len(expected) - 20
    roots = [root for _, _, (root, _) in expected]
    ratios = [abs(ratio) for _, _, (_, ratio) in expected]
    assert len(set(roots)) > 100 and len(set(ratios)) > 200
    assert ratios.count(0) > 0 and ratios.count(2**23 - 1) > 10
    assert sum(0 < ratio < 2**23 - 1 for ratio in ratios) > 200


@pytest.mark.parametrize("width", [16, 8])
def test_the_golden_model_says_the_same(width):
    rng = seeded(2)
    seen = 0
    for _ in range(300):
        e, hyper, rate = command(rng)
        group = list(weights(rng, width, 20))
        expected = [step(width, e, hyper, rate, weight)[:2] for weight in group]
        found = adam(
            *(np.array(column, np.int64) for column in zip(*group, strict=True)), AdamExponents(*e.values()),
            Hyper(*rate), *([Hyper(*hyper[place]) for place in places] for places in (
                (Adam.BETA1, Adam.BETA2), (Adam.REST1, Adam.REST2))), hyper[Adam.EPSILON][0], width,
        )  # fmt: skip
        assert [*zip(found.hi, found.lo, found.m, found.s, strict=True)] == [results[:4] for results, _ in expected]
        assert found.saturations == sum(sum(results[4:]) for results, _ in expected)
        lengths = [max(length) for length in zip(*(lengths for _, lengths in expected), strict=True)]
        places = (e["ew_next"] - 16, e["em_next"] - 16, e["es_next"] - 7)
        tops = [length + place if length else None for length, place in zip(lengths, places, strict=True)]
        assert [found.top_w, found.top_m, found.top_s] == tops
        seen += len(group)
    assert seen == 6000
