"""Folded root and division against Python's integers, exhaustively where they are small."""

from math import isqrt

import pytest
from adagp.rtl.lib.divide import Divide
from adagp.rtl.lib.product import FACTOR_WIDTH, Product
from adagp.rtl.lib.square_root import SquareRoot
from amaranth import signed, unsigned
from bench import seeded, simulate

FOLDS = (1, 3, 8)


def run(dut, names, latency, cases, fold=1):
    """Feed a case every ``fold`` cycles, collect what comes out ``latency`` cycles later, and stands as long.

    ``by`` is given a cycle earlier.
    """
    seen = []
    cases = [case for case in cases for _ in range(fold)]

    async def bench(ctx):
        for n in range(-fold, len(cases) + latency):
            if "start" in dut.signature.members:
                ctx.set(dut.start, n % fold == 0)
            for place, name in enumerate(names):
                k = n + (name == "by")
                value = cases[k][place] if 0 <= k < len(cases) else 0
                wrong = (1 << len(getattr(dut, name))) - 1 if k % fold else 0  # later in a fold, inputs are anything
                ctx.set(getattr(dut, name), value ^ wrong if value >= 0 else value)
            if n >= latency:
                seen.append(ctx.get(dut.o))
            await ctx.tick()

    simulate(dut, bench)
    assert seen == [value for value in seen[::fold] for _ in range(fold)]
    return seen[::fold]


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("width", [2, 4, 10])
def test_every_root(width, fold):
    dut = SquareRoot(width, fold)
    values = range(1 << width)
    assert run(dut, ["i"], dut.latency, [(v,) for v in values], fold) == [isqrt(v) for v in values]


def test_wide_roots():
    rng = seeded(1)
    values = [0, 1, (1 << 44) - 1]
    for _ in range(1000):
        root = rng.randrange(1 << 22) >> rng.randrange(22)
        values += [max(0, root * root - 1), root * root, rng.randrange(1 << 44) >> rng.randrange(44)]
    dut = SquareRoot(44, 8)
    assert run(dut, ["i"], dut.latency, [(v,) for v in values], 8) == [isqrt(v) for v in values]


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize(("width", "divisor_width", "quotient_width"), [(6, 3, 3), (7, 2, 3), (5, 4, 3), (6, 3, 1)])
def test_every_quotient(width, divisor_width, quotient_width, fold):
    dut = Divide(width, divisor_width, quotient_width, fold)
    cases = [(i, by) for i in range(1 << width) for by in range(1, 1 << divisor_width)]
    most = (1 << quotient_width) - 1
    quotients = [i // by for i, by in cases]
    assert max(quotients) > most
    assert run(dut, ["i", "by"], dut.latency, cases, fold) == [min(quotient, most) for quotient in quotients]


def test_wide_quotients():
    rng = seeded(2)
    most = (1 << 23) - 1
    cases = [((1 << 45) - 1, (1 << 22) - 1), (0, 1), ((1 << 45) - 1, 1)]
    while len(cases) < 3000:
        by = (rng.randrange(1 << 22) >> rng.randrange(22)) or 1
        quotient = rng.choice((most, most + 1, rng.randrange(1 << 23) >> rng.randrange(23)))
        cases.append((min((1 << 45) - 1, quotient * by + rng.choice((0, by - 1, rng.randrange(by)))), by))
        cases.append((rng.randrange(1 << 45) >> rng.randrange(45), by))
    dut = Divide(45, 22, 23, 8)
    expected = [min(i // by, most) for i, by in cases]
    assert run(dut, ["i", "by"], dut.latency, cases, 8) == expected
    assert 100 < expected.count(most) < len(expected) - 100


@pytest.mark.parametrize("shape", [signed(8), unsigned(15), signed(16), unsigned(31), signed(32), unsigned(44)])
def test_products(shape):
    rng = seeded(3)
    low = -(1 << (shape.width - 1)) if shape.signed else 0
    high = low + (1 << shape.width) - 1
    cases = [(f, i) for f in (0, 1, (1 << FACTOR_WIDTH) - 1) for i in (low, low + 1, 0, 1, high)]
    while len(cases) < 1000:
        cases.append((rng.randrange(1 << FACTOR_WIDTH), rng.randint(low, high) >> rng.randrange(shape.width)))
    seen = run(Product(shape), ["factor", "i"], Product.LATENCY, cases)
    assert seen == [factor * i for factor, i in cases]


def test_bad_sizes():
    with pytest.raises(ValueError, match=r"not 5\Z"):
        SquareRoot(5, 8)
