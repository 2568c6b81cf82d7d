"""Constants of batch norm's channels against the golden model: random sums, exponents, gammas, and their limits."""

from dataclasses import replace
from math import ldexp

import pytest
from adagp.golden import channel_constants as golden
from adagp.golden.channel_constants import Affine
from adagp.rtl.norm.channel_constants import ChannelConstants
from adagp.rtl.norm.layouts import Task
from adagp.spec.norm import LEAST_EXPONENT, MAX_VALUES, ZERO, NormConstants, Number, State
from bench import cycles_until, seeded, simulate


def rounded_constants(n, momentum, epsilon=1e-5):
    """Constants whose mantissas have 16 bits."""

    def number(value):
        exponent = 0
        while value < 1 << 15:
            value, exponent = value * 2, exponent - 1
        while value >= 1 << 16:
            value, exponent = value / 2, exponent + 1
        return Number(int(value), exponent)

    return NormConstants(n, number(epsilon * n * n), momentum, number(momentum / 65536 / max(1, n * (n - 1))))


def drawn_number(rng):
    if rng.random() < 0.1:
        return ZERO
    return Number(rng.randrange(1 << 30, 1 << 31) * rng.choice((-1, 1)), rng.randint(-80, 20))


def drawn_values(rng):
    """The sums of a few kinds of channels: x and g, n times over."""
    kind = rng.choice(("narrow", "wide", "same", "limits", "zeros", "step"))
    repeats = rng.choice((1, 1, rng.randint(1, 1000), MAX_VALUES // 8))
    base = rng.randint(-32000, 32000) if rng.random() < 0.5 else 0
    spread = {"narrow": rng.choice((1, 5, 50)), "wide": 32767, "same": 0, "limits": 0, "zeros": 0, "step": 0}[kind]
    if kind == "limits":
        x = [rng.choice((-32767, 32767)) for _ in range(8)]
    elif kind == "zeros":
        x = [0] * 8
    else:
        x = [max(-32767, min(32767, base + rng.randint(-spread, spread))) for _ in range(8)]
    g = [rng.choice((0, 32767, -32767, rng.randint(-32767, 32767), rng.randint(-9, 9))) for _ in range(8)]
    if rng.random() < 0.1:
        g = [0] * 8
    if kind == "step":  # the steepest gradient over x, which lowers P
        g = [rng.choice((-1, 1)) * rng.choice((32767, 20000, 8000))] * 8
        x[0], g[0] = x[0] + 1, -g[0]
    of_x = (sum(x) * repeats, sum(each * each for each in x) * repeats)
    return 8 * repeats, of_x, (sum(g) * repeats, sum(a * b for a, b in zip(g, x, strict=True)) * repeats)


class Driver:
    def __init__(self, rng):
        self.dut, self.rng, self.longest, self.checked = ChannelConstants(), rng, dict.fromkeys(Task, 0), 0

    async def make(self, ctx, task, **inputs):
        for name, value in inputs.items():
            ctx.set(getattr(self.dut, name), value)
        ctx.set(self.dut.task, task)
        while self.rng.random() < 0.3:
            await ctx.tick()
        ctx.set(self.dut.start, 1)
        await ctx.tick()
        ctx.set(self.dut.start, 0)
        self.longest[task] = max(self.longest[task], await cycles_until(ctx, self.dut.ready, self.dut.CYCLES))

    def compare(self, ctx, port, expected):
        found = {name: ctx.get(getattr(port, name)) for name in expected}
        assert found == expected
        self.checked += 1

    async def batch(self, ctx, of_x, affine, state, constants, ex):
        """Forward row and statistics of a batch; returns the row."""
        await self.make(
            ctx, Task.BATCH, command=_command(constants, affine, ex), first=of_x[0], second=of_x[1],
            gamma=affine.gamma, beta=affine.beta, state=_words(state),
        )  # fmt: skip
        row = golden.forward_constants(of_x, affine, ex, constants)
        self.compare(ctx, self.dut.forward, vars(row))
        self.compare(ctx, self.dut.next_state, _words(golden.running_state(state, of_x, ex, constants)))
        return row

    async def backward(self, ctx, row, of_g, ex, eg, n):
        command = {"n": n, "x_exponent": ex, "g_exponent": eg}
        await self.make(ctx, Task.BACKWARD, command=command, first=of_g[0], second=of_g[1], row=vars(row))
        back = golden.backward_constants(row, of_g, ex, eg, n)
        expected = {name: getattr(back, name) for name in ("p", "p_exponent", "q", "q_shift", "r")}
        self.compare(ctx, self.dut.backward, expected | {
            "gradient": back.gradient.mantissa, "gradient_exponent": back.gradient.exponent,
        })  # fmt: skip

    async def running(self, ctx, affine, state, constants, ex):
        await self.make(
            ctx, Task.RUNNING, command=_command(constants, affine, ex), first=0, gamma=affine.gamma, beta=affine.beta,
            state=_words(state),
        )  # fmt: skip
        self.compare(ctx, self.dut.forward, vars(golden.running_constants(state, affine, ex, constants)))


def _command(constants, affine, ex):
    return {
        "n": constants.n, "epsilon": constants.epsilon.mantissa, "epsilon_exponent": constants.epsilon.exponent,
        "momentum": constants.momentum, "unbiased": constants.unbiased.mantissa,
        "unbiased_exponent": constants.unbiased.exponent, "w_exponent": affine.exponent, "x_exponent": ex,
    }  # fmt: skip


def _words(state):
    return {
        "mean": state.mean.mantissa, "mean_exponent": state.mean.exponent,
        "variance": state.variance.mantissa, "variance_exponent": state.variance.exponent,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_random_channels(seed):
    rng = seeded(seed)
    driver = Driver(rng)

    async def bench(ctx):
        for _ in range(40):
            n, of_x, of_g = drawn_values(rng)
            operands = [rng.choice((0, 1, -1, 32767, -32767, rng.randint(-32767, 32767))) for _ in range(2)]
            ew, ex, eg = (rng.choice((rng.randint(-20, -8), rng.randint(-128, 127))) for _ in range(3))
            state = State(drawn_number(rng), drawn_number(rng))
            state = State(state.mean, Number(abs(state.variance.mantissa), state.variance.exponent))
            constants = rounded_constants(n, rng.choice((1, 6554, 65535, rng.randint(1, 65535))))
            if rng.random() < 0.5:  # statistics whose exponents lie near those of the batch
                near = golden.running_state(state, of_x, ex, rounded_constants(n, 65000))
                state = near if rng.random() < 0.8 else State(near.variance, near.variance)
            affine = Affine(*operands, ew)
            row = await driver.batch(ctx, of_x, affine, state, constants, ex)
            await driver.backward(ctx, row, of_g, ex, eg, n)
            await driver.running(ctx, affine, state, constants, ex)

    simulate(driver.dut, bench)
    print({task.name: cycles for task, cycles in driver.longest.items()})
    assert driver.checked == 4 * 40


def drawn_row(rng):
    """A channel's forward row, with its sums of g, exponents of x and g, and n."""
    n, of_x, of_g = drawn_values(rng)
    ex, eg = rng.randint(-20, -8), rng.randint(-20, -8)
    affine = Affine(rng.choice((0, 1, 32767, rng.randint(-32767, 32767))), rng.randint(-32767, 32767), -15)
    return golden.forward_constants(of_x, affine, ex, rounded_constants(n, 6554)), of_g, ex, eg, n


def from_a_tie(row, of_g, ex, eg, n):
    """Distance of Q from the middle between two integers, as a share of it."""
    back = golden.backward_constants(row, of_g, ex, eg, n)
    product = abs(row.a * back.gradient.mantissa * row.inverse)
    exact = ldexp(product, back.gradient.exponent + row.inverse_exponent + ex - eg - back.q_shift)
    return abs(exact % 1 - 0.5) / exact if 0 < abs(back.q) < 0xFFFF else 1


def test_factors_next_to_a_tie():
    """A gradient that is wrong by 2^-26 of it rounds Q the other way in some of these channels."""
    rng = seeded(3)
    driver = Driver(rng)
    channels = sorted((drawn_row(rng) for _ in range(12_000)), key=lambda drawn: from_a_tie(*drawn))[:24]
    assert 0 < from_a_tie(*channels[-1]) < 2**-23

    async def bench(ctx):
        for drawn in channels:
            await driver.backward(ctx, *drawn)

    simulate(driver.dut, bench)
    assert driver.checked == 24


def test_rows_of_large_inverses():
    """Rows that no batch makes: those of gamma 0 need no places, the others lower P by as many as there are."""
    rng = seeded(4)
    driver, lowered = Driver(rng), []

    async def bench(ctx):
        for _ in range(30):
            row, *others = drawn_row(rng)
            row = replace(row, inverse_exponent=row.inverse_exponent + rng.choice((20, 40, rng.randint(5000, 8000))))
            await driver.backward(ctx, row, *others)
            lowered.append(golden.backward_constants(row, *others).p_exponent - row.a_exponent)

    simulate(driver.dut, bench)
    assert driver.checked == 30 and lowered.count(0) > 3 and max(lowered) >= 1 << 13


def test_statistics_next_to_zero():
    """A variance of the least exponents, and a batch without any: which of the two is shifted, and how far."""
    rng = seeded(5)
    driver, kept = Driver(rng), set()

    async def bench(ctx):
        for place in range(30):
            x = rng.randint(-32767, 32767)
            of_x = (8 * x, 8 * x * x + rng.choice((0, 0, 1)))
            variance = Number(rng.randrange(1 << 30, 1 << 31), LEAST_EXPONENT + 1 + rng.randrange(12))
            constants = rounded_constants(8, rng.randint(1, 65535))
            constants = replace(constants, unbiased=replace(constants.unbiased, exponent=place - 2))
            state = State(replace(variance, mantissa=-variance.mantissa), variance)
            await driver.batch(ctx, of_x, Affine(32767, 1, -15), state, constants, -12)
            kept.add(golden.running_state(state, of_x, -12, constants).variance)

    simulate(driver.dut, bench)
    assert driver.checked == 60 and len(kept) > 15 and ZERO in kept
