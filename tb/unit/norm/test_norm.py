"""Batch norm's unit: random values and tables in turn, against the golden model and plain integers."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.golden import channel_constants as golden
from adagp.golden.channel_constants import Affine
from adagp.golden.channel_tables import pack_rows
from adagp.rtl.norm.layouts import Task
from adagp.rtl.norm.norm import Norm
from adagp.spec.norm import (
    APPLY_PLANES,
    BACKWARD_ROW,
    FORWARD_ROW,
    GRADIENT_PLANES,
    KEPT_PLANES,
    STATE_ROW,
    SUMS_ROW,
    NormConstants,
    Number,
    State,
)
from adagp.spec.presets import preset
from bench import seeded, simulate

TINY = replace(preset("tiny"), batch_norm=True)
TWO_UNITS = replace(TINY, rows=6, cols=5)
CONFIGS = {"tiny": TINY, "two units": TWO_UNITS}


def clamp(shift):
    return max(-16, min(63, shift))


class Jobs:
    """Jobs, vectors of the operands, and vectors that must come out: (values, shifts, plain) of the lanes in use.

    ``sizes``: values of a group of channels.
    """

    def __init__(self, config, rng, sizes=range(1, 20)):
        self.config, self.rng, self.sizes = config, rng, sizes
        self.values = np.random.default_rng(rng.getrandbits(32))
        self.jobs, self.a, self.b, self.expected = [], [], [], []

    def vectors(self, rows, final, lanes):
        """The vectors of a group."""
        return [
            {"data": [*row, *[0] * (self.config.rows - lanes)], "lanes": lanes, "end_pass": int(at == len(rows) - 1),
             "end_walk": int(final and at == len(rows) - 1)}
            for at, row in enumerate(rows)
        ]  # fmt: skip

    def groups(self):
        """Lanes of each group."""
        channels = self.rng.randint(1, 2 * self.config.rows + 1)
        rows = self.config.rows
        return [min(rows, channels - at) for at in range(0, channels, rows)]

    def numbers(self, limit, count):
        x = self.values.integers(-limit, limit, count, endpoint=True)
        x[self.values.random(count) < 0.1] = self.rng.choice((limit, -limit, 0))
        return [int(each) for each in x]

    def scale(self, pairs=None):
        pairs = self.rng.randrange(2) if pairs is None else pairs
        exponent = self.rng.randint(-300, 300)
        self.jobs.append({"is_table": 0, "scale": {"exponent": exponent, "pairs": pairs}})
        groups = self.groups()
        for number, lanes in enumerate(groups):
            row = {"p": 65535, "p_exponent": 400, "r": (1 << 46) - 1, "q": 65535, "q_shift": 14}
            drawn = {name: self.numbers(limit, lanes) for name, limit in row.items()}
            drawn["q_shift"] = [abs(shift) for shift in drawn["q_shift"]]
            drawn["p_exponent"] = [exponent - self.rng.randint(-80, 20) for _ in range(lanes)]
            channels = [{name: drawn[name][lane] for name in row} for lane in range(lanes)]
            table = pack_rows(BACKWARD_ROW, channels).tolist()
            of_a, of_b = [], table if pairs else table[-APPLY_PLANES:]
            for _ in range(self.rng.choice(self.sizes)):
                g, x = self.numbers(32767, lanes), self.numbers(32767, lanes)
                of_a.append(g)
                of_b += [x] * pairs
                values = [
                    c["p"] * g[lane] + ((c["q"] * x[lane]) << c["q_shift"] if pairs else 0) + c["r"]
                    for lane, c in enumerate(channels)
                ]
                self.expected.append((values, [clamp(exponent - c["p_exponent"]) for c in channels], 0))
            for queue, vectors in ((self.a, of_a), (self.b, of_b)):
                queue += self.vectors(vectors, number == len(groups) - 1, lanes)

    def channel(self, n):
        """Sums of a channel's x, and of its g."""
        x = self.values.integers(-1, 1, n) * self.rng.choice((1, 100, 20000)) + self.rng.randint(-12000, 12000)
        g = self.values.integers(-30000, 30000, n)
        return (int(x.sum()), int((x * x).sum())), (int(g.sum()), int((g * x).sum()))

    def table(self, task):
        n = self.rng.randint(2, 300)
        constants = NormConstants(
            1 if task == Task.RUNNING else n, Number(self.rng.randrange(1 << 15, 1 << 16), self.rng.randint(-40, 0)),
            self.rng.randint(1, 65535), Number(self.rng.randrange(1 << 15, 1 << 16), -30),
        )  # fmt: skip
        ew, ex, eg, exponent = (self.rng.randint(-20, -5) for _ in range(4))
        command = {
            "n": constants.n, "epsilon": constants.epsilon.mantissa, "epsilon_exponent": constants.epsilon.exponent,
            "momentum": constants.momentum, "unbiased": constants.unbiased.mantissa,
            "unbiased_exponent": constants.unbiased.exponent, "w_exponent": ew, "x_exponent": ex, "g_exponent": eg,
        }  # fmt: skip
        self.jobs.append({"is_table": 1, "table": {"task": task, "command": command, "exponent": exponent}})
        groups = self.groups()
        for number, lanes in enumerate(groups):
            each = [self._one(task, n, constants, ew, ex, eg, exponent) for _ in range(lanes)]
            given, made = (np.concatenate([tables[at] for tables in each], axis=1) for at in (0, 1))
            shifts = [tables[2] for tables in each]
            self.a += self.vectors(given.tolist(), number == len(groups) - 1, lanes)
            for plane, values in enumerate(made.tolist()):
                of_g = task == Task.BACKWARD and plane < GRADIENT_PLANES
                self.expected.append((values, [shift[plane] if of_g else 0 for shift in shifts], int(not of_g)))

    def _one(self, task, n, constants, ew, ex, eg, exponent):
        """Planes given and made of a channel, and the shifts of its gradients."""
        of_x, of_g = self.channel(n)
        affine = Affine(*self.numbers(32767, 2), ew)
        drawn = [Number(self.rng.randrange(1 << 30, 1 << 31), self.rng.randint(-45, -20)) for _ in range(2)]
        state = State(*drawn)
        weights = np.array([[affine.gamma], [affine.beta]])
        row = golden.forward_constants(of_x, affine, ex, constants)
        if task == Task.BACKWARD:
            back = golden.backward_constants(row, of_g, ex, eg, constants.n)
            given = np.concatenate([_sums(of_g), pack_rows(FORWARD_ROW, [vars(row)])[-KEPT_PLANES:]])
            gradients = np.array([[back.gradient.mantissa], [of_g[0]]])
            shifts = [clamp(exponent - back.gradient.exponent), clamp(exponent - eg)]
            return given, np.concatenate([gradients, pack_rows(BACKWARD_ROW, [vars(back)])]), shifts
        if task == Task.RUNNING:
            made = pack_rows(FORWARD_ROW, [vars(golden.running_constants(state, affine, ex, constants))])
            return np.concatenate([weights, _state(state)]), made, []
        made = [pack_rows(FORWARD_ROW, [vars(row)]), _state(golden.running_state(state, of_x, ex, constants))]
        return np.concatenate([_sums(of_x), weights, _state(state)]), np.concatenate(made), []


def _sums(pair):
    return pack_rows(SUMS_ROW, [{"first": pair[0], "second": pair[1]}])


def _state(state):
    return pack_rows(STATE_ROW, [{
        "mean": state.mean.mantissa, "mean_exponent": state.mean.exponent,
        "variance": state.variance.mantissa, "variance_exponent": state.variance.exponent,
    }])  # fmt: skip


async def traffic(ctx, dut, jobs, rng, stall):
    """Offer jobs and vectors with random pauses; returns the vectors that come out."""
    queues = {dut.job: list(jobs.jobs), dut.a: list(jobs.a), dut.b: list(jobs.b)}
    taken, offered = [], dict.fromkeys(map(id, queues), False)
    while len(taken) < len(jobs.expected):
        for port, queue in queues.items():
            if queue and not offered[id(port)] and rng.random() >= stall:
                ctx.set(port.payload, queue[0])
                ctx.set(port.valid, 1)
                offered[id(port)] = True
        ready = int(rng.random() >= stall)
        ctx.set(dut.o.ready, ready)
        await ctx.delay(1e-12)  # a pair's operands wait for each other without a clock
        goes = {id(port): offered[id(port)] and ctx.get(port.ready) for port in queues}
        comes = ready and ctx.get(dut.o.valid)
        payload = ctx.get(dut.o.payload) if comes else None
        await ctx.tick()
        for port, queue in queues.items():
            if goes[id(port)]:
                queue.pop(0)
                ctx.set(port.valid, 0)
                offered[id(port)] = False
        if payload is not None:
            taken.append(payload)
    ctx.set(dut.o.ready, 0)  # a vector too many stays
    assert not any(queues.values())
    return taken


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("stall", [0, 0.3])
def test_random_jobs(name, stall, count=12):
    rng = seeded(int(10 * stall))
    config = CONFIGS[name]
    jobs = Jobs(config, rng)
    for number in range(count):
        if number % 4 == 3:
            jobs.table(list(Task)[number // 4 % 3])
        else:
            jobs.scale()
    dut, seen = Norm(config), 0

    async def bench(ctx):
        nonlocal seen
        for got, (values, shifts, plain) in zip(await traffic(ctx, dut, jobs, rng, stall), jobs.expected, strict=True):
            lanes = range(len(values))
            assert [got.sums[lane] for lane in lanes] == values, seen
            assert ([got.shift[lane] for lane in lanes], got.plain) == (shifts, plain), seen
            seen += 1
        for _ in range(9):
            await ctx.tick()
        assert not ctx.get(dut.busy) and not ctx.get(dut.o.valid)

    simulate(dut, bench, limit=200_000)
    assert seen == len(jobs.expected) > 100


@pytest.mark.parametrize("pairs", [0, 1])
def test_values_follow_one_another(pairs):
    """A result a cycle, without a pause between groups but for the planes of pairs."""
    rng = seeded(4)
    jobs = Jobs(TINY, rng, sizes=range(APPLY_PLANES + 4, 30))
    for _ in range(12):
        jobs.scale(pairs)
    taken = []

    async def bench(ctx):
        taken.extend(await traffic(ctx, dut, jobs, rng, 0))

    dut = Norm(TINY)
    groups = sum(vector["end_pass"] for vector in jobs.a)
    cycles = len(jobs.b) if pairs else len(jobs.a) + len(jobs.jobs) * APPLY_PLANES
    simulate(dut, bench, limit=cycles + 8 * len(jobs.jobs))
    assert len(taken) == len(jobs.expected) and groups > 10


def test_groups_of_few_values():
    """Constants of the next group never come too early, however few values and wherever the pipeline waits."""
    rng = seeded(5)
    jobs = Jobs(TINY, rng, sizes=(1, 1, 2, 3))
    for number in range(40):
        jobs.scale(number % 2)
    dut, seen = Norm(TINY), 0

    async def bench(ctx):
        nonlocal seen
        for got, (values, shifts, _) in zip(await traffic(ctx, dut, jobs, rng, 0.4), jobs.expected, strict=True):
            lanes = range(len(values))
            assert ([got.sums[lane] for lane in lanes], [got.shift[lane] for lane in lanes]) == (values, shifts), seen
            seen += 1

    simulate(dut, bench, limit=20_000)
    assert seen == len(jobs.expected) > 100
