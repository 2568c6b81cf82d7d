"""Requantise against exact rational arithmetic, and the corners by hand."""

from fractions import Fraction

import pytest
from adagp.rtl.lib.requantise import Requantise
from bench import seeded, simulate


def reference(v, shift, width):
    """round() of a Fraction rounds half to even."""
    limit = 2 ** (width - 1) - 1
    return max(-limit, min(limit, round(Fraction(v) / Fraction(2) ** shift)))


def run(dut, pairs, negate=None):
    """Feed one pair a cycle, collect what comes out LATENCY cycles later."""
    seen = []

    async def bench(ctx):
        if negate is not None:
            ctx.set(dut.negate, negate)
        for n in range(len(pairs) + dut.LATENCY):
            if n < len(pairs):
                ctx.set(dut.i, pairs[n][0])
                ctx.set(dut.shift, pairs[n][1])
            if n >= dut.LATENCY:
                seen.append(ctx.get(dut.o))
            await ctx.tick()

    simulate(dut, bench)
    return seen


def test_hand_worked():
    dut = Requantise(16, 16, -4, 8)
    cases = [
        (1, 1, 0), (3, 1, 2), (5, 1, 2), (-1, 1, 0), (-3, 1, -2), (6, 2, 2), (7, 2, 2), (-6, 2, -2),
        (-32768, 0, -32767), (32767, 0, 32767), (4095, -3, 32760), (4096, -3, 32767), (-4096, -3, -32767),
        (-1, -4, -16), (384, 8, 2), (128, 8, 0), (129, 8, 1),
    ]  # fmt: skip
    assert run(dut, [case[:2] for case in cases]) == [case[2] for case in cases]


@pytest.mark.parametrize("negates", [False, True])
@pytest.mark.parametrize(
    ("in_width", "out_width", "shift_min", "shift_max"),
    [
        (48, 48, -16, 63),
        (16, 48, -31, 31),
        (16, 47, -31, 31),
        (16, 32, -31, 31),
        (8, 32, -31, 31),
        (49, 56, -40, 63),
        (20, 8, -3, 5),
    ],
)
def test_random(in_width, out_width, shift_min, shift_max, negates):
    rng = seeded(1)
    low, high = -(1 << (in_width - 1)), (1 << (in_width - 1)) - 1
    pairs = [(v, s) for v in (low, low + 1, -1, 0, 1, high) for s in range(shift_min, shift_max + 1)]
    while len(pairs) < 3000:
        v = rng.randint(low, high) >> rng.randrange(in_width)
        shift = rng.randint(shift_min, shift_max)
        if rng.random() < 0.5 and 1 <= shift < in_width:  # at a tie, or beside one
            v = (v >> shift << shift) + (1 << (shift - 1)) + rng.choice((-1, 0, 1))
        pairs.append((max(low, min(high, v)), shift))
    dut = Requantise(in_width, out_width, shift_min, shift_max, negates)
    for negate in (0, 1) if negates else (None,):
        seen = run(dut, pairs, negate)
        assert seen == [reference(-v if negate else v, s, out_width) for v, s in pairs]
    assert len(seen) == len(pairs) > 0


def test_bad_range():
    with pytest.raises(ValueError, match=r"not 0, 5\Z"):
        Requantise(16, 16, 0, 5)
