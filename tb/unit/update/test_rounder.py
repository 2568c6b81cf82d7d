"""Rounder against exact rational rounding, around every limit and every tie."""

from fractions import Fraction

import pytest
from adagp.rtl.update.rounder import Rounder
from adagp.spec.numerics import UPDATE_GUARD_BITS
from amaranth.hdl import Fragment
from bench import seeded, simulate

WIDTH = 24
LIMITS = ((1 << 15) - 1, (1 << 12) - (1 << 4) - 1)
GUARD = 1 << UPDATE_GUARD_BITS


def expected(value, limit, negate):
    """Python's round is half to even; magnitudes above the limit are cut to it."""
    rounded = round(Fraction(value, GUARD))
    magnitude = abs(rounded)
    cut = min(magnitude, limit) * (1 if rounded >= 0 else -1)
    return (-cut if negate else cut), magnitude, magnitude > limit


def test_rounds_and_cuts():
    rng, dut, seen = seeded(3), Rounder(WIDTH, *LIMITS), []
    most = (1 << WIDTH - 1) - 1
    near = [limit * GUARD + offset for limit in LIMITS for offset in range(-2 * GUARD, 2 * GUARD + 1)]
    values = [sign * value for value in (*range(4 * GUARD + 1), *near, most) for sign in (1, -1)]
    values += [-most - 1] + [rng.randint(-most - 1, most) >> rng.randrange(WIDTH) for _ in range(1000)]
    cases = [(value, rng.randrange(2), rng.randrange(2)) for value in values if -most - 1 <= value <= most]

    async def bench(ctx):
        for n in range(len(cases) + dut.LATENCY):
            value, limit, negate = cases[min(n, len(cases) - 1)]
            ctx.set(dut.i, value)
            ctx.set(dut.limit, limit)
            ctx.set(dut.negate, negate)
            if n >= dut.LATENCY:
                seen.append((ctx.get(dut.o), ctx.get(dut.magnitude), bool(ctx.get(dut.saturated))))
            await ctx.tick()

    simulate(dut, bench)
    wrong = [(case, found) for case, found in zip(cases, seen, strict=True)
             if found != expected(case[0], LIMITS[case[1]], case[2])]  # fmt: skip
    assert not wrong, wrong[:3]
    assert seen == [expected(value, LIMITS[limit], negate) for value, limit, negate in cases]
    assert sum(cut for *_, cut in seen) > 100 and len(seen) > 1500


@pytest.mark.parametrize("limit", [4, 8, 9])
def test_limits_that_need_a_carry_are_refused(limit):
    with pytest.raises(ValueError, match=f"not {limit}"):
        Fragment.get(Rounder(WIDTH, limit), None)
