"""Pool unit: every mode against numpy, with operands that tie and results that wait."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.rtl.compute.pool import Pool
from adagp.spec.microcode.descriptors import VectorMode
from adagp.spec.presets import PRESETS
from bench import seeded, simulate, sink, source

N_WINDOWS = 12


def check(dut, jobs, a_vectors, b_vectors, expected, rng, stall):
    """Give the pool unit its jobs and operands, and compare all results."""
    seen = 0

    async def collect(ctx):
        nonlocal seen
        for got, want in zip(await sink(ctx, dut.o, len(expected), rng, stall), expected, strict=True):
            assert list(got) == want
            seen += 1

    simulate(
        dut,
        lambda ctx: source(ctx, dut.job, jobs, rng, stall),
        lambda ctx: source(ctx, dut.a, a_vectors, rng, stall),
        lambda ctx: source(ctx, dut.b, b_vectors, rng, stall),
        collect,
    )
    assert seen == len(expected) > 0


@pytest.mark.parametrize("name", ["tiny", "paper"])
@pytest.mark.parametrize("stall", [0, 0.4])
def test_modes_in_turn(name, stall):
    config = PRESETS[name]
    dut = Pool(config)
    rng = seeded(5)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    largest = (1 << (config.operand_width - 1)) - 1
    jobs, a_vectors, b_vectors, expected = [], [], [], []
    for mode in (VectorMode.SUM, VectorMode.MAX, VectorMode.SELECT, VectorMode.MAX, VectorMode.SUM):
        for n_taps in (1, 2, 6):
            mantissa = int(numbers.integers(1, 0xFFFF, endpoint=True)) if mode == VectorMode.SUM else 1
            bound = largest if mode == VectorMode.SUM or n_taps == 2 else 2
            a = numbers.integers(-bound, bound, (N_WINDOWS, n_taps, config.rows), endpoint=True)
            b = numbers.integers(0, n_taps + 1, a.shape, endpoint=True)
            jobs.append({"mode": mode.value, "n_taps": n_taps, "mantissa": mantissa})
            for vectors, operand in ((a_vectors, a), (b_vectors, b if mode == VectorMode.SELECT else b[:0])):
                flat = operand.reshape(-1, config.rows).tolist()
                vectors += [{"data": row, "end_walk": row is flat[-1]} for row in flat]
            for window, taps in zip(a, b, strict=True):
                if mode == VectorMode.MAX:
                    expected += [window.max(axis=0).tolist(), (1 + window.argmax(axis=0)).tolist()]
                elif mode == VectorMode.SUM:
                    expected.append((mantissa * window.sum(axis=0)).tolist())
                else:
                    hit = taps == np.arange(n_taps, 0, -1)[:, None]
                    expected.append(np.where(hit, window, 0).sum(axis=0).tolist())
    check(dut, jobs, a_vectors, b_vectors, expected, rng, stall)


@pytest.mark.parametrize(
    ("mode", "n_taps", "cycles"),
    [("MAX", 4, 4), ("MAX", 1, 4), ("SUM", 4, 4), ("SUM", 1, 2), ("DIGITS", 32, 32 + 8), ("DIGITS", 1, 1 + 8)],
)
def test_windows_follow_one_another(mode, n_taps, cycles):
    """A tap per cycle, while results go, one every two cycles: nothing is reduced while digits leave."""
    dut = Pool(replace(PRESETS["tiny"], batch_norm=mode == "DIGITS"))
    results = {"MAX": 2, "SUM": 1, "DIGITS": 8}[mode]
    rng = seeded(6)
    n_windows = 32
    job = {"mode": VectorMode[mode].value, "n_taps": n_taps, "mantissa": 1}
    n_vectors = n_windows * n_taps
    vectors = [{"data": [1] * dut.config.rows, "end_walk": i == n_vectors - 1} for i in range(n_vectors)]
    gone = []

    async def collect(ctx):
        gone.extend(await sink(ctx, dut.o, n_windows * results, rng, 0))

    simulate(
        dut,
        lambda ctx: source(ctx, dut.job, [job], rng, 0),
        lambda ctx: source(ctx, dut.a, vectors, rng, 0),
        lambda ctx: source(ctx, dut.b, vectors if mode == "DIGITS" else [], rng, 0),
        collect,
        limit=n_windows * cycles + 10,
    )
    assert len(gone) >= n_windows


def digits_of(sums):
    """Vectors of the digits of a vector, the least first; the last one signed."""
    places = [[x >> 15 * place & 0x7FFF for x in sums] for place in range(3)]
    return [*places, [x >> 45 for x in sums]]


@pytest.mark.parametrize("name", ["tiny", "paper"])
@pytest.mark.parametrize("stall", [0, 0.4])
@pytest.mark.parametrize("digits", [False, True])
def test_products_are_kept_from_job_to_job(name, stall, digits):
    """DOT or DIGITS in one job or in several, which add to what the one before kept, with other modes in between."""
    config = replace(PRESETS[name], depthwise=not digits, batch_norm=digits)
    dut = Pool(config)
    rng = seeded(7)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    largest = (1 << (config.operand_width - 1)) - 1
    jobs, a_vectors, b_vectors, expected = [], [], [], []
    for n_windows, taps in (
        (1, [1]),
        (9, [1]),
        (5, [3]),
        (1, [1, 1]),
        (7, [1, 1, 2]),
        (20, [4, 1, 2]),
        (256 if digits else 512, [1, 1]),
    ):
        total, of_b = 0, 0
        for part, n_taps in enumerate(taps):
            jobs.append({
                "mode": (VectorMode.DIGITS if digits else VectorMode.DOT).value, "n_taps": n_taps, "mantissa": 3,
                "adds": part > 0, "keeps": part < len(taps) - 1,
            })  # fmt: skip
            a, b = numbers.integers(-largest, largest, (2, n_windows, n_taps, config.rows), endpoint=True)
            total, of_b = total + (a * b).sum(axis=1), of_b + b.sum(axis=1)
            for vectors, operand in ((a_vectors, a), (b_vectors, b)):
                flat = operand.reshape(-1, config.rows).tolist()
                vectors += [{"data": row, "end_walk": row is flat[-1]} for row in flat]
        for products, others in zip(total.tolist(), of_b.tolist(), strict=True):
            expected += digits_of(products) + digits_of(others) if digits else [products]
        jobs.append({"mode": VectorMode.SUM.value, "n_taps": 1, "mantissa": 5, "adds": 1, "keeps": 1})
        a_vectors.append({"data": [n_windows] * config.rows, "end_walk": 1})
        expected.append([5 * n_windows] * config.rows)
    check(dut, jobs, a_vectors, b_vectors, expected, rng, stall)
