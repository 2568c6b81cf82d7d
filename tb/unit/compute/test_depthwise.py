"""Windows side by side: sums over taps and over pixels against PyTorch's convolutions, with results that wait."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.rtl.compute.depthwise import Depthwise
from adagp.rtl.lib.block_memory import BlockMemory
from adagp.spec.presets import PRESETS
from amaranth import Module
from amaranth.lib import wiring
from bench import seeded, simulate, sink, source
from torch.nn.functional import conv2d
from torch.nn.grad import conv2d_weight

TINY, PAPER = (replace(PRESETS[name], depthwise=True) for name in ("tiny", "paper"))


class Bench(wiring.Component):
    """The unit with the memory of kept sums."""

    def __init__(self, config):
        super().__init__({})
        self.dut = Depthwise(config)
        self.memory = BlockMemory(self.dut.kept.shape(), config.kept_words)

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut, m.submodules.memory = dut, memory = self.dut, self.memory
        m.d.comb += [getattr(memory, name).eq(getattr(dut, name)) for name in ("r_en", "r_addr", "w_en", "w_addr")]
        m.d.comb += [memory.w_data.eq(dut.o.payload), dut.kept.eq(memory.r_data)]
        return m


class Jobs:
    """Jobs with their vectors and results, of random sizes and operands of ``config``."""

    def __init__(self, config, rng):
        self.config, self.rng = config, rng
        self.numbers = np.random.default_rng(rng.randrange(1 << 30))
        self.jobs, self.a, self.b, self.expected = [], [], [], []

    def operand(self, *shape):
        largest = (1 << (self.config.operand_width - 1)) - 1
        return torch.from_numpy(self.numbers.integers(-largest, largest, shape, endpoint=True).astype(float))

    def give(self, to, groups):
        """Vectors [group][vector][lane] of an operand; the last of a group ends its pass."""
        for group in groups:
            ends = [False] * (len(group) - 1) + [True]
            to.extend(
                {"data": row, "end_pass": end, "end_walk": end and group is groups[-1]}
                for row, end in zip(group, ends, strict=True)
            )

    def job(self, columns, width, stride, **more):
        self.jobs.append({"columns": columns, "width": width, "skips": stride == 2, "rows": 1, **more})

    def over_taps(self, r, s, stride, n=1, oh=1, ow=1, groups=1):
        """Windows of ``groups`` times ``rows`` channels; images and kernels [channel][row][column]."""
        rows = self.config.rows
        high, wide = (oh - 1) * stride + r, (ow - 1) * stride + s
        x, w = self.operand(n, groups * rows, high, wide), self.operand(groups * rows, 1, r, s)
        y = conv2d(x, w, stride=stride, groups=groups * rows)
        self.job(wide, s, stride, rows=r)
        by_group = x.numpy().reshape(n, groups, rows, high, wide).transpose(1, 0, 3, 4, 2).astype(int)
        spots = [(image, line * stride + i, u) for image in range(n) for line in range(oh)
                 for u in range(wide) for i in range(r)]  # fmt: skip
        self.give(self.a, [[group[spot].tolist() for spot in spots] for group in by_group])
        taps = w.numpy().reshape(groups, rows, r * s).transpose(0, 2, 1).astype(int)
        self.give(self.b, taps.tolist())
        results = y.numpy().reshape(n, groups, rows, -1).transpose(1, 0, 3, 2).astype(int)
        self.expected += results.reshape(-1, rows).tolist()

    def over_pixels(self, r, s, stride, n=1, oh=1, ow=1, groups=1, bias=0, tiles=1):
        """Gradients of kernels, in ``tiles`` jobs that add up."""
        rows, total = self.config.rows, 0
        high, wide = (oh - 1) * stride + r, (ow - 1) * stride + s
        for tile in range(tiles):
            x, dy = self.operand(n, groups * rows, high, wide), self.operand(n, groups * rows, oh, ow)
            dw = conv2d_weight(x, (groups * rows, 1, r, s), dy, stride=stride, groups=groups * rows)
            sums = np.concatenate([dw.numpy().reshape(-1, r * s), dy.numpy().sum(axis=(0, 2, 3))[:, None][:, :bias]], 1)
            total = total + sums.astype(int)
            self.job(wide, s, stride, vectors=n * oh * wide, ones=bias, adds=tile > 0, keeps=tile < tiles - 1)
            lanes = x.numpy().reshape(n, groups, rows, high, wide).transpose(1, 0, 3, 4, 2).astype(int)
            a = [lanes[:, :, i : i + stride * (oh - 1) + 1 : stride].reshape(groups, -1, rows) for i in range(r)]
            self.give(self.a, np.concatenate([*a, *[np.ones_like(a[0])] * bias], axis=1).tolist())
            b = dy.numpy().reshape(n, groups, rows, -1).transpose(1, 0, 3, 2).reshape(groups, -1, rows).astype(int)
            self.give(self.b, np.concatenate([b] * (r + bias), axis=1).tolist())
        self.expected += total.reshape(groups, rows, -1).transpose(0, 2, 1).reshape(-1, rows).tolist()

    def check(self, stall, limit=20_000):
        """Run them all."""
        bench, seen = Bench(self.config), 0
        dut = bench.dut

        async def collect(ctx):
            nonlocal seen
            found = await sink(ctx, dut.o, len(self.expected), self.rng, stall)
            for number, (got, want) in enumerate(zip(found, self.expected, strict=True)):
                assert list(got) == want, number
                seen += 1

        simulate(
            bench,
            *(lambda ctx, port=port, items=items: source(ctx, port, items, self.rng, stall)
              for port, items in ((dut.job, self.jobs), (dut.a, self.a), (dut.b, self.b))),
            collect, limit=limit,
        )  # fmt: skip
        assert seen == len(self.expected) > 0


SIZES = [(2, 1), (3, 1), (3, 2)]
"""Widths of windows, each with a stride at which they share columns."""


@pytest.mark.parametrize("config", [TINY, PAPER], ids=["tiny", "paper"])
@pytest.mark.parametrize("stall", [0, 0.4])
def test_jobs_in_turn(config, stall):
    """All sizes in both directions, with one window a row or several, in one group or several, in random order."""
    rng = seeded(11)
    jobs = Jobs(config, rng)
    cases = [(s, stride, direction) for s, stride in SIZES for direction in ("taps", "pixels") for _ in range(4)]
    for s, stride, direction in rng.sample(cases, len(cases)):
        size = {"n": rng.randint(1, 2), "oh": rng.randint(1, 3), "ow": rng.randint(1, 4), "groups": rng.randint(1, 2)}
        r = rng.randint(1, 4)
        if direction == "taps":
            jobs.over_taps(r, s, stride, **size)
        else:
            jobs.over_pixels(r, s, stride, **size, bias=rng.randrange(2), tiles=rng.randint(1, 3))
    jobs.check(stall, limit=40_000)


def test_limits():
    """The longest kernel that there is room for, and as many kept sums as there are words."""
    jobs = Jobs(TINY, seeded(12))
    jobs.over_taps(TINY.tap_rows, 3, 1, ow=2, groups=2)
    jobs.over_pixels(TINY.kept_words // 8, 2, 1, groups=4, tiles=2)
    assert 4 * 2 * (TINY.kept_words // 8) == TINY.kept_words == len(jobs.expected) - 4
    jobs.check(0)


@pytest.mark.parametrize(("s", "stride"), SIZES)
def test_a_vector_a_cycle(s, stride):
    """Windows that follow one another take a cycle for each vector; a pass's sums but one take a cycle each."""
    r, size, starting = 3, {"n": 2, "oh": 4, "ow": 9}, 12
    wide = 8 * stride + s
    jobs = Jobs(TINY, seeded(13))
    jobs.over_taps(r, s, stride, **size)
    jobs.check(0, limit=r * s + 2 * 4 * wide * r + starting)
    jobs = Jobs(TINY, seeded(13))
    jobs.over_pixels(r, s, stride, **size, bias=1)
    jobs.check(0, limit=(r + 1) * 2 * 4 * wide + r * (s - 1) + starting)
