"""Sums by filter and window against the golden model: whole layers, tile by tile, in both layouts of vectors."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from adagp.golden.reorganise import reorganise
from adagp.rtl.drain.epilogue import Epilogue
from adagp.rtl.drain.reorganise import Reorganise
from adagp.spec.microcode.descriptors import DRAIN
from adagp.spec.numerics import operand_max
from adagp.spec.presets import preset
from bench import seeded, simulate

TINY = replace(preset("tiny"), variant="low", n_filters=24)
NARROW = replace(TINY, cols=2, rows=7, n_filters=9)
WIDE = replace(TINY, cols=7, acc_width=44)
FOLDED = replace(TINY, cols=5, epilogue_lanes=2, n_filters=12)


def random_results(rng, config, *shape):
    """Results of a shape, many at the limit."""
    limit = operand_max(config.operand_width)
    values = np.random.default_rng(rng.getrandbits(32))
    y = values.integers(-limit, limit + 1, shape)
    return y if rng.random() < 0.7 else np.full_like(y, rng.choice((limit, -limit)))


def random_layer(rng, config, flat, narrow):
    """Results ``[n, h, w, q]``, small extents."""
    n, h, w = rng.randint(1, 3), 1 if flat else rng.randint(2, 6), 1 if narrow else rng.randint(2, 7)
    return random_results(rng, config, n, h, w, rng.randint(1, config.n_filters))


def long_layers(rng, config, bits):
    """Layers that differ from ones of a single row, or column, in one bit of their height or width."""
    for bit in bits:
        long = (1 << bit) + 1
        for h, w in ((long, 1), (1, long)):
            yield random_results(rng, config, 1, h, w, rng.randint(1, 3))


def tiles(rng, config, y, swap):
    """(descriptor, vectors as (values, mask, row, last)) of each tile, in a random cut and order."""
    n, h, w, q = y.shape
    nb, yb, qb = (rng.randint(1, extent) for extent in (n, h, q))
    inner = [(n0, y0) for n0 in range(0, n, nb) for y0 in range(0, h, yb)]
    outer = range(0, q, qb)
    places = [(n0, y0, o0) for o0 in outer for n0, y0 in inner]
    if rng.randrange(2):
        places = [(n0, y0, o0) for n0, y0 in inner for o0 in outer]
    for n0, y0, o0 in places:
        part = y[n0 : n0 + nb, y0 : y0 + yb, :, o0 : o0 + qb]
        lanes_by_stream = part.reshape(-1, part.shape[-1])
        if not swap:
            lanes_by_stream = lanes_by_stream.T
        lanes, stream = lanes_by_stream.shape
        groups = -(-lanes // config.cols)
        d = dict.fromkeys((bits.name for bits in DRAIN), 0)
        d.update(
            reorganise=1, swap=swap, fresh=int(n0 == y0 == 0), at=4 * o0, width=w, height=h, row=y0, rows=part.shape[1],
            n_out=groups, n_in=stream, lanes_last=lanes - (groups - 1) * config.cols,
        )  # fmt: skip
        vectors = []
        for group in range(groups):
            values = lanes_by_stream[group * config.cols : (group + 1) * config.cols]
            for i in range(stream):
                row = i == stream - 1
                vectors.append((values[:, i].tolist(), row, row and group == groups - 1))
        yield d, vectors


class Surroundings:
    """The drain around the sums: descriptors one after the other, an epilogue that changes nothing."""

    def __init__(self, dut, config, rng):
        self.dut, self.config, self.rng = dut, config, rng
        self.pipe, self.width = [None] * Epilogue.LATENCY, len(dut.i.mask)
        self.entered = self.taken = self.held = self.passed = 0  # groups of the present vector that have passed

    async def tick(self, ctx, vector=None, foreign=False):
        """A cycle in which ``vector``, or a group of it, wants to enter; whether its last one has."""
        dut, width, rng = self.dut, self.width, self.rng
        groups = [vector[0][first : first + width] for first in range(0, len(vector[0]), width)] if vector else []
        final = self.passed == len(groups) - 1
        ctx.set(dut.enter, final)
        ctx.set(dut.row, final and bool(vector[1]))
        ctx.set(dut.last, final and bool(vector[2]))
        passes = vector is not None and bool(ctx.get(dut.ready))
        moved = passes and final
        shown = self.pipe.pop(0)
        self.pipe.append((groups[self.passed], self.passed, final) if passes else None)
        self.passed = self.passed + 1 if passes and not final else 0 if moved else self.passed
        limit, part = operand_max(self.config.operand_width), dict.fromkeys(("group", "final"), 0)
        values, mask = [rng.randint(-limit, limit) for _ in range(width)], 0
        if shown:
            given, part["group"], part["final"] = shown
            values[: len(given)] = given
            mask = (1 << len(given)) - 1
        ctx.set(dut.i, {"values": values, "mask": rng.getrandbits(width) | 1 if foreign else mask, **part})
        await ctx.tick()
        self.entered += moved
        self.held += vector is not None and not moved
        return moved

    async def start(self, ctx, d):
        ctx.set(self.dut.d, d)
        ctx.set(self.dut.start, 1)
        await self.tick(ctx)
        ctx.set(self.dut.start, 0)

    async def sum_up(self, ctx, d, vectors):
        await self.start(ctx, d)
        stall = self.rng.choice((0, 0.5))
        for vector in vectors:
            while self.rng.random() < stall:
                await self.tick(ctx)
            while not await self.tick(ctx, vector):
                pass
        while ctx.get(self.dut.busy):
            await self.tick(ctx)

    async def others(self, ctx):
        """Results of a descriptor that takes no part."""
        await self.start(ctx, dict.fromkeys((bits.name for bits in DRAIN), 0) | {"n_out": 1, "n_in": 5})
        for _ in range(5):
            await self.tick(ctx, foreign=True)
        assert not ctx.get(self.dut.busy)

    async def read(self, ctx, at, count, mantissa):
        d = dict.fromkeys((bits.name for bits in DRAIN), 0)
        await self.start(ctx, d | {"reorganise": 1, "vector": 1, "at": at, "n_out": count, "mantissa": mantissa})
        found, stall = [], self.rng.choice((0, 0.5))
        while len(found) < count:
            ready = self.rng.random() >= stall
            ctx.set(self.dut.o.ready, ready)
            if ready and ctx.get(self.dut.o.valid):
                found.append(ctx.get(self.dut.o.payload))
            await self.tick(ctx)
        ctx.set(self.dut.o.ready, 0)
        assert not ctx.get(self.dut.o.valid)
        self.taken += count
        return found


@pytest.mark.parametrize(("config", "count"), [(TINY, 3), (NARROW, 2), (WIDE, 2), (FOLDED, 1)])
def test_layers(config, count, bits=range(1, 8)):
    """Command after command: the sums are those of the last layer, and older ones' where it has no filters."""
    rng = seeded(count)
    dut = Reorganise(config)
    around = Surroundings(dut, config, rng)
    sums = np.zeros((config.n_filters, 4), np.int64)
    kinds = list(itertools.product((False, True), repeat=3))
    vectors = fresh = added = 0

    async def bench(ctx):
        nonlocal vectors, fresh, added
        layers = [(swap, random_layer(rng, config, flat, narrow)) for swap, flat, narrow in kinds * count]
        layers += [(swap, y) for swap in (False, True) for y in long_layers(rng, config, bits)]
        for swap, y in layers:
            for d, each in tiles(rng, config, y, swap):
                vectors += len(each)
                fresh += d["fresh"]
                added += 1 - d["fresh"]
                await around.sum_up(ctx, d, each)
            sums[: y.shape[-1]] = reorganise(y).reshape(-1, 4)
            new = 4 * y.shape[-1]
            assert await around.read(ctx, 0, new, 1) == sums.ravel()[:new].tolist()
            if rng.random() < 0.3:
                await around.others(ctx)
            mantissa = rng.choice((1, 0xFFFF, rng.getrandbits(16)))
            at = rng.randrange(sums.size // 2)
            length = rng.randint(1, sums.size - at)
            found = await around.read(ctx, at, length, mantissa)
            assert found == (sums.ravel()[at : at + length] * mantissa).tolist()

    simulate(dut, bench, limit=400_000)
    assert around.entered == vectors > 0
    assert min(around.taken, around.held, fresh, added) > 0


@pytest.mark.parametrize("swap", [0, 1])
def test_cycles(swap):
    """A row of vectors takes as many cycles as the docstring says, from the start until the sums are in memory."""
    rng = seeded(swap)
    config = replace(TINY, cols=4)
    dut = Reorganise(config)
    around = Surroundings(dut, config, rng)
    groups, stream = 3, 8
    d = dict.fromkeys((bits.name for bits in DRAIN), 0)
    d.update(reorganise=1, swap=swap, n_out=groups, n_in=stream, lanes_last=4, width=4, height=2, rows=2)
    vectors = [
        ([1] * 4, i == stream - 1, i == stream - 1 and group == groups - 1)
        for group in range(groups) for i in range(stream)
    ]  # fmt: skip
    cycles = []

    async def bench(ctx):
        await around.start(ctx, d)
        cycles.append(0)
        for vector in vectors:
            while not await around.tick(ctx, vector):
                cycles[0] += 1
            cycles[0] += 1

    simulate(dut, bench)
    settle = dut.settle_cycles
    # With swap, four pixels touch the two windows of their line, and the last vector of a row is the next one's wait.
    row = 4 + 2 * (stream - 1) + 1 + settle if swap else stream + settle + 4 * 4
    last = 4 + 2 * (stream - 1) + 1 if swap else stream
    assert cycles == [1 + row * (groups - 1) + last]
    assert around.entered == groups * stream > 0
