"""The predictor's arithmetic against float64: reorganisation, Adam, quality, scale; and the phases by hand."""

from math import sqrt

import numpy as np
import pytest
import torch
from adagp.golden.adam import AdamExponents, Powers, adam, step_rate
from adagp.golden.exponents import rule
from adagp.golden.quality import passes, quality_sums, rms_exponent
from adagp.golden.reorganise import reorganise
from adagp.golden.update import Hyper
from adagp.spec.commands import Phase
from adagp.spec.numerics import unpredicted, window_sizes
from adagp.spec.schedule import Entry, Schedule, State, following

STEPS, WEIGHTS = 10_000, 64
RATE, BETA1, BETA2 = Hyper(53687, -29), Hyper(58982, -16), Hyper(65470, -16)


def complement(beta):
    return Hyper((1 << 16) - beta.mantissa, -16)


def value(hyper):
    return hyper.mantissa * 2.0**hyper.exponent


def test_adam_follows_torch_over_many_steps_of_skewed_gradients():
    rng = np.random.default_rng(1)
    scales = 2.0 ** rng.uniform(-11, 0, WEIGHTS)
    drift = rng.uniform(-0.5, 0.5, WEIGHTS)
    hi, lo = rng.integers(-(1 << 13), 1 << 13, WEIGHTS), np.zeros(WEIGHTS, np.int64)
    m = s = np.zeros(WEIGHTS, np.int64)
    w_exp, w_next, m_exp, m_next, s_exp, s_next = -14, -14, -20, -20, -20, -20
    weights = torch.nn.Parameter(torch.tensor(hi * 2.0**w_exp, dtype=torch.float64))
    start = weights.detach().clone()
    optimiser = torch.optim.Adam([weights], lr=value(RATE), betas=(value(BETA1), value(BETA2)), eps=0)
    powers = Powers()
    for _ in range(STEPS):
        gradient = scales * (drift + rng.standard_normal(WEIGHTS))
        g_exp = int(np.ceil(np.log2(np.abs(gradient).max()))) + 1 - 15
        g = np.round(gradient / 2.0**g_exp).astype(np.int64)
        powers = powers.after(BETA1, BETA2)
        exps = AdamExponents(g_exp, w_exp, w_next, m_exp, m_next, s_exp, s_next)
        done = adam(g, hi, lo, m, s, exps, step_rate(RATE, powers), (BETA1, BETA2),
                    (complement(BETA1), complement(BETA2)), 1, 16)  # fmt: skip
        hi, lo, m, s = done.hi, done.lo, done.m, done.s
        w_exp, m_exp, s_exp = w_next, m_next, s_next
        w_next, m_next, s_next = (
            rule(w_next, done.top_w, 16),
            rule(m_next, done.top_m, 16),
            rule(s_next, done.top_s, 16),
        )
        weights.grad = torch.tensor(g * 2.0**g_exp)
        optimiser.step()
    found = ((hi << 16) + lo) * 2.0 ** (w_exp - 16)
    expected = weights.detach().numpy()
    moved = np.abs(expected - start.numpy())
    assert moved.min() > 0.01
    print("error over way", (np.abs(found - expected) / moved).max())
    assert (np.abs(found - expected) / moved).max() < 0.02


def test_rates_are_corrected_for_bias():
    powers = Powers()
    for step in range(1, 200):
        powers = powers.after(BETA1, BETA2)
        exact = value(RATE) * sqrt(1 - value(BETA2) ** step) / (1 - value(BETA1) ** step)
        assert value(step_rate(RATE, powers)) == pytest.approx(exact, rel=2e-4)


@pytest.mark.parametrize("shape", [(2, 8, 8, 3), (1, 5, 7, 2), (3, 2, 2, 5), (4, 1, 1, 6), (2, 1, 4, 1), (1, 3, 2, 2)])
def test_reorganised_is_an_average_pool(shape):
    y = np.random.default_rng(2).integers(-30000, 30000, shape)
    n, height, width, _ = shape
    size = max(1, height // 2), max(1, width // 2)
    pooled = torch.nn.functional.avg_pool2d(torch.tensor(y.transpose(0, 3, 1, 2), dtype=torch.float64), size)
    rows, columns = ([0, 1] if extent > 1 else [0, 0] for extent in (height, width))
    expected = pooled.mean(0).numpy()[:, rows][:, :, columns]
    found = reorganise(y) / (n * window_sizes(height, width))
    assert found.shape == expected.shape == (shape[3], 2, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("offset", [-3, 0, 2])
def test_the_gate_knows_the_cosine(noise, sign, offset):
    rng = np.random.default_rng(3)
    true = rng.standard_normal(500)
    predicted = sign * true + noise * rng.standard_normal(500)
    t = np.round(true * 2048).astype(np.int64)
    e_unit = 2.0 ** (offset - 11)
    e = np.round((predicted - t / 2048) / e_unit).astype(np.int64)
    p = e * e_unit + t / 2048
    cosine = p @ t / 2048 / (np.linalg.norm(p) * np.linalg.norm(t / 2048))
    e, t = np.append(e, unpredicted(16)), np.append(t, 12345)
    sums = quality_sums(e, t, 16)
    assert sums.count == 500
    for threshold in (0.05, 0.3, 0.6, 0.9):
        square = Hyper(round(threshold**2 * 2**16), -16)
        if abs(abs(cosine) - threshold) > 0.005:
            said = passes(sums, offset, 0, (square.mantissa, square.exponent))
            assert said == (cosine > threshold)


def test_scale_is_near_the_root_of_the_mean_square():
    rng = np.random.default_rng(4)
    for spread in (3, 50, 700, 9000):
        t = np.round(rng.standard_normal(1000) * spread).clip(-32767, 32767).astype(np.int64)
        rms = sqrt((t * t).mean()) * 2.0**-5
        assert 0.35 < 2.0 ** rms_exponent(quality_sums(np.zeros_like(t), t, 16), -5) / rms < 2


def phases(schedule, batches, gate=lambda batch: True):
    state, found = State(), ""
    for batch in range(batches):
        phase, state = following(state, schedule, gate(batch))
        found += {Phase.WARMUP: "w", Phase.BP: "b", Phase.GP: "g"}[phase]
    return found


@pytest.mark.parametrize(("schedule", "expected"), [
    (Schedule(1, 3, (Entry(2, 4, 1), Entry(1, 1, 1))), "www" + "ggggbg" + "gggbgb"),
    (Schedule(0, 5, (Entry(1, 2, 1),)), "ggbggbggbg"),
    (Schedule(2, 2, ()), "wwwwbbbb"),
    (Schedule(0, 4, (Entry(1, 0, 1),)), "bbbb"),
    (Schedule(0, 4, (Entry(1, 2, 0),)), "gggg"),
    (Schedule(0, 4, (Entry(1, 0, 0),)), "bbbb"),
    (Schedule(1, 1, (Entry(4, 4, 1), Entry(4, 3, 1))), "w" + "gggg" + "bgggbgggb"),
])  # fmt: skip
def test_phases_by_hand(schedule, expected):
    assert phases(schedule, len(expected)) == expected


def test_a_shut_gate_begins_no_run():
    schedule = Schedule(0, 100, (Entry(1, 3, 2),))
    assert phases(schedule, 12, lambda batch: batch not in (1, 5, 7)) == "gggbbbbbbggg"
