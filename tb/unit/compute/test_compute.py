"""Compute engine with its scratchpads and tokens: descriptors of real layers against numpy."""

import random
from dataclasses import replace

import numpy as np
import pytest
from adagp.host.estimate.compute import accumulator_words
from adagp.rtl.compute import compute
from adagp.rtl.compute.compute import Compute
from adagp.rtl.compute.dataflow import join
from adagp.rtl.compute.feeder import Feeder
from adagp.rtl.lib.token import TokenCounter
from adagp.rtl.memory.scratchpad import Scratchpad
from adagp.spec.commands import Opcode
from adagp.spec.opcodes import DEPTHWISE
from adagp.spec.presets import PRESETS
from amaranth import Module
from amaranth.lib import wiring
from bench import seeded, simulate, sink, source
from compute_jobs import Expectation, gemm, layer

TINY, PAPER = PRESETS["tiny"], PRESETS["paper"]
REASONS = ("active", "stall_a", "stall_b", "stall_load", "stall_drain", "stall_idle")
TOKENS = {"a_full": 0, "b_full": 0, "a_free": 2, "b_free": 2, "acc_free": 2, "acc_full": 0}


class Bench(wiring.Component):
    """The engine between its scratchpads, with all of its tokens; the rest is played by testbenches."""

    def __init__(self, config):
        super().__init__({})
        self.dut = Compute(config)
        self.pads = {name: Scratchpad(config, 2 * getattr(config, f"{name}_depth")) for name in "ab"}
        self.tokens = {name: TokenCounter(initial, 2) for name, initial in TOKENS.items()}

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = self.dut
        for name, pad in self.pads.items():
            m.submodules[f"pad_{name}"] = pad
            wiring.connect(m, getattr(self.dut, name), pad.read)
        for name, counter in self.tokens.items():
            m.submodules[name] = counter
            port = getattr(self.dut, name)
            if isinstance(port, wiring.PureInterface):
                wiring.connect(m, port, counter.take)
            else:
                m.d.comb += counter.give.eq(port)
        return m


async def take(ctx, counter):
    await ctx.tick().until(counter.take.avail)
    ctx.set(counter.take.take, 1)
    await ctx.tick()
    ctx.set(counter.take.take, 0)


async def give(ctx, counter):
    ctx.set(counter.give, 1)
    await ctx.tick()
    ctx.set(counter.give, 0)


def run(config, jobs, seed=3, stall=0.3, late=None, limit=20_000, inside=None):
    """Execute ``jobs``; returns the counters' sums and the cycles in which a GEMM was in progress.

    ``late``: cycles that the last tile of an operand or the first drain comes too late; ``inside``: signals to count.
    """
    late = late or {}
    rng = seeded(seed)
    expected = Expectation(config, jobs, np.random.default_rng(seed))
    assert expected.words or expected.vectors
    dut = Bench(config)
    counts = dict.fromkeys((*REASONS, "macs", "cycles"), 0)
    seen = {"words": 0, "vectors": 0}

    async def pause(ctx, rng):
        while rng.random() < stall:
            await ctx.tick().repeat(rng.randrange(1, 40))

    def fill(name):
        own = random.Random(rng.random())

        async def bench(ctx):
            write, depth = dut.pads[name].write, getattr(config, f"{name}_depth")
            for number, tile in enumerate(expected.tiles[name]):
                await take(ctx, dut.tokens[f"{name}_free"])
                await pause(ctx, own)
                ctx.set(write.mask, (1 << config.banks) - 1)
                for word, operands in enumerate(tile.reshape(-1, config.banks).tolist()):
                    ctx.set(write.addr, [(number % 2) * depth + word] * config.banks)
                    ctx.set(write.data, operands)
                    await ctx.tick()
                ctx.set(write.mask, 0)
                await ctx.tick()
                if number + 1 == len(expected.tiles[name]):
                    await ctx.tick().repeat(1 + late.get(name, 0))
                await give(ctx, dut.tokens[f"{name}_full"])

        return bench

    async def drain(ctx):
        own = random.Random(rng.random())
        acc = dut.dut.acc
        for number, words in enumerate(expected.words):
            await take(ctx, dut.tokens["acc_full"])
            await pause(ctx, own)
            if not number:
                await ctx.tick().repeat(1 + late.get("drain", 0))
            ctx.set(acc.half, number % 2)
            for address, word in enumerate(words):
                ctx.set(acc.addr, address)
                left, en, soon = 3, 0, 0  # moves until the word is there
                while left:
                    en, soon = soon, own.random() >= stall and left > soon
                    for port, value in ((acc.valid, left == 3), (acc.en, en), (acc.next_en, soon)):
                        ctx.set(port, value)
                    await ctx.tick()
                    left -= en
                ctx.set(acc.en, 0)
                assert list(ctx.get(acc.data)[number % 2])[: len(word)] == word, (number, address)
                seen["words"] += 1
            await give(ctx, dut.tokens["acc_free"])

    async def collect(ctx):
        vectors = await sink(ctx, dut.dut.vector, len(expected.vectors), random.Random(rng.random()), stall)
        assert list(map(list, vectors)) == expected.vectors
        seen["vectors"] += len(vectors)

    async def describe(ctx):
        await source(ctx, dut.dut.i, jobs, random.Random(rng.random()), stall)

    async def count(ctx):
        n_words = sum(map(len, expected.words))
        took = [0] * Feeder.MACS_LATENCY
        while seen["words"] < n_words or seen["vectors"] < len(expected.vectors):
            now = {name: ctx.get(getattr(dut.dut, name)) for name in (*REASONS, "macs")}
            assert sum(now[name] for name in REASONS) == 1
            took.append(now["active"])
            assert took[-1 - Feeder.MACS_LATENCY] or not now["macs"]
            if not now["stall_idle"]:
                counts["cycles"] += 1
            for name, signal in (inside or {}).items():
                now[name] = ctx.get(signal)
            for name in now:
                counts[name] = counts.get(name, 0) + now[name]
            await ctx.tick()

    simulate(dut, fill("a"), fill("b"), drain, collect, describe, count, limit=limit)
    assert seen["words"] == sum(map(len, expected.words))
    assert seen["vectors"] == len(expected.vectors)
    assert counts["macs"] == expected.macs
    return counts


def small(config):
    """The configuration with small scratchpads."""
    return replace(config, a_depth=64, b_depth=64, c_depth=64, acc_depth=64)


SUMS = replace(TINY, rows=3, cols=4, output_stationary=True)
SHAPES = [TINY, replace(TINY, rows=2, cols=3), replace(TINY, rows=5, cols=2, operand_width=8), SUMS]
CONV = {"n": 2, "c": 3, "h": 4, "w": 3, "oh": 4, "ow": 3, "q": 5, "r": 3, "s": 3, "stride": 1, "pad_y": 1, "pad_x": 1}
STRIDED = CONV | {"h": 7, "w": 5, "stride": 2}
POOL = CONV | {"c": 5, "r": 2, "s": 3, "h": 5, "w": 5, "oh": 2, "ow": 3, "stride": 2, "pad_y": 0}
TILE = {"nb": 2, "yb": 2, "cb": 2, "qb": 4}


@pytest.mark.parametrize("config", SHAPES, ids=lambda c: f"{c.rows}x{c.cols}")
def test_matrices(config):
    jobs = [
        gemm(n_a, n_b, n_k, swap=swap, ones=ones, first=first, last=last)
        for n_a, n_b, n_k, chunks in (
            (2, 1, 1, ((1, 1),)),
            (3, 1, 12, ((1, 0), (0, 0), (0, 1))),
            (5, 7, 9, ((1, 0), (0, 1), (1, 1))),
        )
        for swap, ones in ((0, 0), (1, 1), (0, 1), (1, 0))
        for first, last in chunks
    ]
    run(small(config), jobs)


@pytest.mark.parametrize("opcode", [Opcode.FORWARD, Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT])
@pytest.mark.parametrize("swap", [0, 1])
def test_convolutions(opcode, swap):
    config = small(TINY)
    jobs = [job for shape in (CONV, STRIDED) for job in layer(config, opcode, bias=1, swap=swap, **shape, **TILE)]
    run(config, jobs)


@pytest.mark.parametrize("opcode", [Opcode.MAXPOOL, Opcode.MAXPOOL_BACKWARD, Opcode.AVGPOOL, Opcode.AVGPOOL_BACKWARD])
def test_pools(opcode):
    jobs = layer(small(TINY), opcode, const_mantissa=0xFFFF, **POOL, **(TILE | {"nb": 1, "cb": 5, "qb": 5}))
    run(small(TINY), jobs)


@pytest.mark.parametrize("opcode", DEPTHWISE)
@pytest.mark.parametrize("rows", [4, 3])
def test_depthwise(opcode, rows):
    """Between other modes; with ``nb`` 1 a weight gradient comes in several tiles."""
    config = replace(small(TINY), rows=rows, depthwise=True)
    tile = TILE | {"nb": 1, "cb": 5, "qb": 5}
    jobs = [
        *layer(config, opcode, bias=1, **POOL, **tile),
        *layer(config, Opcode.FORWARD, **CONV, **TILE)[:4],
        *layer(config, opcode, bias=0, **POOL, **tile),
        *layer(config, Opcode.MAXPOOL, **POOL, **tile)[:1],
        *layer(config, opcode, bias=1, **POOL, **tile),
    ]
    run(config, jobs)


@pytest.mark.parametrize("opcode", DEPTHWISE)
def test_tall_kernels(opcode):
    """With as many rows as the pool unit holds of a kernel, and one more, which goes window by window."""
    config, shape = (
        replace(small(TINY), a_depth=128, depthwise=True),
        {"n": 1, "c": 3, "q": 3, "h": 18, "w": 4, "ow": 2, "s": 3},
    )
    jobs = [
        job
        for r in (config.tap_rows, config.tap_rows + 1)
        for job in layer(config, opcode, **shape, r=r, oh=19 - r, stride=1, bias=1, nb=1, yb=2, cb=3, qb=3)
    ]
    assert {job["task"] for job in jobs} == {0, 3}
    run(config, jobs)


def test_gemms_and_pools_in_turn():
    config = small(TINY)
    tile = TILE | {"nb": 1, "cb": 5, "qb": 5}
    jobs = [
        *layer(config, Opcode.FORWARD, **CONV, **TILE)[:4],
        *layer(config, Opcode.MAXPOOL, **POOL, **tile)[:1],
        *layer(config, Opcode.BACKWARD_DATA, swap=1, **CONV, **TILE)[:4],
        *layer(config, Opcode.MAXPOOL_BACKWARD, **POOL, **tile)[:1],
        *layer(config, Opcode.AVGPOOL, const_mantissa=3, **POOL, **tile)[:1],
        *layer(config, Opcode.BACKWARD_WEIGHT, bias=1, **CONV, **TILE)[:4],
    ]
    run(config, jobs)


def test_paper_array():
    config = replace(PAPER, a_depth=64, b_depth=64, acc_depth=64)
    jobs = [gemm(20, 17, 30, last=0), gemm(20, 17, 13, first=0), gemm(20, 17, 30, swap=1)]
    run(config, jobs)


@pytest.mark.parametrize("swap", [0, 1])
def test_reasons_of_stalls(swap):
    """Late tiles of A or B, a late drain, and nothing to do are told apart."""
    job = gemm(6, 5, 9, swap=swap)
    again = job | {"new_a": 0, "new_b": 0}
    late = 300
    for name in ("a", "b"):
        counts = run(small(TINY), [job, again | {f"new_{name}": 1}], stall=0, late={name: late})
        assert late / 2 < counts[f"stall_{name}"] < 2 * late
        assert counts["stall_drain"] == 0
    counts = run(small(TINY), [job, again, again], stall=0, late={"drain": late})
    assert late / 2 < counts["stall_drain"] < 2 * late


def test_utilisation():
    """Loading, offsets and fetching stay ahead of the array; descriptors follow each other at once."""
    n_a, n_b, n_k = 64, 45, 48
    config = replace(PAPER, a_depth=256, b_depth=256, acc_depth=256)
    job = gemm(n_a, n_b, n_k, new_a=0, new_b=0, first=0, last=0)
    jobs = [job | {"new_a": 1, "new_b": 1, "first": 1}, job, job | {"last": 1}]
    counts = run(config, jobs, stall=0)
    least = len(jobs) * (n_k // config.rows) * (n_b // config.cols) * n_a
    assert counts["active"] == least
    first_tile = 2 * (config.rows + config.cols)  # offsets, fetch and load of the first one
    assert counts["cycles"] - counts["stall_a"] - counts["stall_b"] <= least + first_tile


@pytest.mark.parametrize("config", [TINY, SUMS], ids=["ws", "os"])
def test_words_of_the_accumulator(config, monkeypatch):
    """As many are written and read as the closed form says; where sums stay, blocks follow each other at once."""
    inside = {}

    def spied(m, config, feeder, array, accumulator):
        tag = accumulator.tag
        inside.update(written=tag.valid, read=tag.valid & ~tag.overwrite)
        join(m, config, feeder, array, accumulator)

    monkeypatch.setattr(compute, "join", spied)
    n_a, n_b, n_k = 9, 8, 16
    job = gemm(n_a, n_b, n_k, new_a=0, new_b=0, first=0, last=0)
    jobs = [job | {"new_a": 1, "new_b": 1, "first": 1}, job, job | {"last": 1}]
    counts = run(small(config), jobs, stall=0, inside=inside)
    expected = [sum(words) for words in zip(*(accumulator_words(config, job) for job in jobs), strict=True)]
    assert [counts["written"], counts["read"]] == expected and expected[1] > 0
    if config.output_stationary:
        assert counts["active"] == len(jobs) * n_k * (n_a // config.rows) * (n_b // config.cols)
        assert counts["cycles"] - counts["stall_a"] - counts["stall_b"] <= counts["active"] + 20
        assert expected == [len(jobs) * n_a * n_b // config.cols, (len(jobs) - 1) * n_a * n_b // config.cols]
