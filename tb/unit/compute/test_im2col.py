"""Im2col: vectors of walks through real tiles, halves changed by tokens, never a vector lost."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.rtl.compute.block_im2col import BlockIm2col
from adagp.rtl.compute.im2col import Im2col
from adagp.rtl.memory.scratchpad import Scratchpad
from adagp.spec.commands import Opcode
from adagp.spec.presets import PRESETS
from amaranth import Module, Signal
from amaranth.hdl import ResetInserter
from amaranth.lib import wiring
from bench import seeded, simulate, sink, source
from compute_jobs import extent, gemm, layer, operand_a

TINY = replace(PRESETS["tiny"], a_depth=64)
PAPER = replace(PRESETS["paper"], a_depth=64)
SUMS = replace(TINY, output_stationary=True)


class Bench(wiring.Component):
    """The fetcher and its scratchpad."""

    def __init__(self, config):
        super().__init__({})
        self.dut = (BlockIm2col if config.output_stationary else Im2col)(config, config.a_depth)
        self.pad = Scratchpad(config, 2 * config.a_depth)

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut, m.submodules.pad = self.dut, self.pad
        wiring.connect(m, self.dut.pad, self.pad.read)
        return m


def walk(job, repeat):
    return {
        "new": job["new_a"], "n_k": job["n_k"], "ones": job["ones"], "repeat": repeat,
        "n": [job[f"n{i}"] for i in range(6)], "jump": [job[f"jump{i}"] for i in range(6)],
        "k": [job[f"k{i}"] for i in range(3)], "kjump": [job[f"kjump{i}"] for i in range(3)],
    }  # fmt: skip


def vectors(config, job, tile, repeat):
    """Expected output of the walk: (lanes, valid lanes, end of pass, of sweep, of walk)."""
    matrix = operand_a(job, tile)
    passes = -(-repeat // config.cols)
    for k in range(0, job["n_k"], config.rows):
        lanes = min(config.rows, job["n_k"] - k)
        for number in range(passes):
            for index, row in enumerate(matrix):
                end_pass = index == len(matrix) - 1
                end_sweep = end_pass and number == passes - 1
                end_walk = end_sweep and k + config.rows >= job["n_k"]
                data = row[k : k + lanes].tolist() + [0] * (config.rows - lanes)
                yield data, lanes, end_pass, end_sweep, end_walk


@pytest.mark.parametrize("config", [TINY, PAPER], ids=lambda c: c.name)
@pytest.mark.parametrize("stall", [0, 0.4])
def test_walks(config, stall):
    rng = seeded(6)
    conv = {
        "n": 2,
        "c": 3,
        "h": 5,
        "w": 3,
        "oh": 3,
        "ow": 2,
        "q": 4,
        "r": 3,
        "s": 3,
        "stride": 2,
        "pad_y": 1,
        "pad_x": 1,
    }
    tile = {"nb": 2, "yb": 2, "cb": 2, "qb": 4}
    jobs = [
        gemm(4, 1, 11, ones=1), gemm(4, 1, 11, ones=1, new_a=0), gemm(1, 1, 1), gemm(1, 1, 1, new_a=0),
        *layer(config, Opcode.FORWARD, **conv, **tile)[:3],
        *layer(config, Opcode.BACKWARD_WEIGHT, bias=1, **conv, **tile)[:3],
    ]  # fmt: skip
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    largest = (1 << (config.operand_width - 1)) - 1
    repeats = [rng.choice([1, config.cols, config.cols + 1, 3 * config.cols]) for _ in jobs]
    tiles, expected = [], []
    for job, repeat in zip(jobs, repeats, strict=True):
        if job["new_a"]:
            elements = config.banks * -(-extent(job, "a") // config.banks)
            tiles.append(numbers.integers(-largest, largest, elements, endpoint=True))
        expected += vectors(config, job, tiles[-1], repeat)
    dut = Bench(config)
    seen = freed = 0

    async def watch(ctx):
        nonlocal freed
        while freed < len(tiles) - 1:
            await ctx.tick().until(dut.dut.free)
            freed += 1

    async def fill(ctx):
        write = dut.pad.write
        for number, contents in enumerate(tiles):
            while number >= freed + 2:
                await ctx.tick()
            ctx.set(write.mask, (1 << config.banks) - 1)
            for word, operands in enumerate(contents.reshape(-1, config.banks).tolist()):
                ctx.set(write.addr, [(number % 2) * config.a_depth + word] * config.banks)
                ctx.set(write.data, operands)
                await ctx.tick()
            ctx.set(write.mask, 0)
            await ctx.tick()
            ctx.set(dut.dut.full.avail, 1)
            await ctx.tick().until(dut.dut.full.take)
            ctx.set(dut.dut.full.avail, 0)

    async def collect(ctx):
        nonlocal seen
        for got, want in zip(await sink(ctx, dut.dut.o, len(expected), rng, stall), expected, strict=True):
            assert (list(got.data), got.lanes, got.end_pass, got.end_sweep, got.end_walk) == want
            seen += 1

    walks = [walk(job, repeat) for job, repeat in zip(jobs, repeats, strict=True)]
    simulate(dut, watch, fill, collect, lambda ctx: source(ctx, dut.dut.walk, walks, rng, stall), limit=20_000)
    assert seen == len(expected) > 0
    assert freed == len(tiles) - 1 > 0


@pytest.mark.parametrize("config", [TINY, PAPER, SUMS], ids=["tiny", "paper", "os"])
def test_a_vector_every_cycle(config):
    """A vector comes every cycle, with one missing between two walks; a walk's first one comes as late as is said."""
    rng, dut = seeded(8), Bench(config)
    n_outer, n_groups, n_walks = 3 * config.rows, 3, 2
    n_vectors = n_outer * n_groups * n_walks
    jobs = [gemm(n_outer, 1, config.rows * n_groups, new_a=number == 0) for number in range(n_walks)]
    starts, came = [], []

    async def watch(ctx):
        ctx.set(dut.dut.full.avail, 1)
        ctx.set(dut.dut.o.ready, 1)
        cycle = 0
        while len(came) < n_vectors:
            if ctx.get(dut.dut.walk.valid & dut.dut.walk.ready):
                starts.append(cycle)
            if ctx.get(dut.dut.o.valid):
                came.append(cycle)
            await ctx.tick()
            cycle += 1

    simulate(
        dut, watch, lambda ctx: source(ctx, dut.dut.walk, [walk(job, 1) for job in jobs], rng, 0), limit=n_vectors + 100
    )
    assert len(starts) == n_walks
    each = n_vectors // n_walks
    assert came[each] == starts[1] + 1 + Im2col.latency + 1  # a start, its first position, the vector, the queue
    assert came == [came[0] + number + number // each for number in range(n_vectors)]


@pytest.mark.parametrize("config", [TINY, SUMS], ids=["tiny", "os"])
def test_a_reset_in_the_middle(config):
    """Nothing is left of a walk that a reset ends at any time, and the next one begins with the first half."""
    rng, dut, reset = seeded(9), Bench(config), Signal()
    job = gemm(5, 1, 2 * config.rows + 1)
    elements = config.banks * -(-extent(job, "a") // config.banks)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    tries, seen = 25, 0

    async def bench(ctx):
        nonlocal seen
        fetch, write = dut.dut, dut.pad.write
        for _ in range(tries):
            ctx.set(fetch.walk.payload, walk(gemm(7, 1, 11, ones=1), config.cols + 1))
            for _ in range(rng.randrange(1, 60)):  # several walks, whose vectors are taken or wait
                ctx.set(fetch.walk.valid, 1)
                ctx.set(fetch.full.avail, 1)
                ctx.set(fetch.o.ready, rng.random() < 0.5)
                await ctx.tick()
            for port in (fetch.walk.valid, fetch.full.avail, fetch.o.ready):
                ctx.set(port, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            tile = numbers.integers(-99, 99, elements, endpoint=True)
            for word, operands in enumerate(tile.reshape(-1, config.banks).tolist()):
                for port, value in ((write.mask, -1), (write.addr, [word] * config.banks), (write.data, operands)):
                    ctx.set(port, value)
                await ctx.tick()
            ctx.set(write.mask, 0)
            ctx.set(fetch.full.avail, 1)
            await source(ctx, fetch.walk, [walk(job, 1)], rng)
            expected = list(vectors(config, job, tile, 1))
            for got, want in zip(await sink(ctx, fetch.o, len(expected), rng), expected, strict=True):
                assert (list(got.data), got.lanes, got.end_pass, got.end_walk) == (*want[:3], want[4])
                seen += 1

    simulate(ResetInserter(reset)(dut), bench, limit=20_000)
    assert seen == tries * len(list(vectors(config, job, np.zeros(elements, int), 1))) > 0
