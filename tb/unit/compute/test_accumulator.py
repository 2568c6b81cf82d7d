"""Accumulator: sweeps over one half while the other is read, at the shortest distance allowed."""

import pytest
from adagp.rtl.compute.accumulator import Accumulator
from adagp.spec.presets import PRESETS
from bench import seeded, simulate

N_SWEEPS = 3


def request(ctx, port, valid, half, addr):
    ctx.set(port.valid, valid)
    ctx.set(port.half, half)
    ctx.set(port.addr, addr)


async def move(ctx, dut, rng, busy=True):
    """The read port's pipeline moves, after a while, in which a word stays asked for or on its way if ``busy``."""
    port = dut.read
    while rng.random() < 0.5:
        await ctx.tick()
        assert ctx.get(dut.reading) or not busy
    ctx.set(port.en, 1)
    await ctx.tick()
    ctx.set(port.en, 0)


@pytest.mark.parametrize("name", ["tiny", "paper"])
def test_sweeps(name):
    config = PRESETS[name]
    dut = Accumulator(config)
    rng = seeded(4)
    bound = 1 << (config.psum_width - 1)
    lengths = [1, 2, 5, 17]
    wanted = []
    for length in lengths:
        rows = [
            [[rng.randrange(-bound, bound) for _ in range(config.cols)] for _ in range(length)] for _ in range(N_SWEEPS)
        ]
        wanted.append(rows)
    finished = []
    seen = 0

    async def add(ctx):
        for half, sweeps in enumerate(wanted):
            while half >= len(read) + 2:  # both halves are full
                await ctx.tick()
            age = [dut.latency] * lengths[half]  # cycles since each word was last added to
            for number, rows in enumerate(sweeps):
                for index, psums in enumerate(rows):
                    while age[index] < dut.latency or rng.random() < 0.2:
                        await ctx.tick()
                        age = [cycles + 1 for cycles in age]
                    end = index == len(rows) - 1
                    ctx.set(dut.tag, {
                        "valid": 1, "half": half % 2, "overwrite": number == 0, "end_sweep": end,
                        "full": end and number == N_SWEEPS - 1,
                    })  # fmt: skip
                    await ctx.tick()
                    ctx.set(dut.psum, psums)
                    ctx.set(dut.tag, {"valid": 0, "full": 1, "end_sweep": 1, "half": rng.getrandbits(1)})
                    age[index] = 0
                    age = [cycles + 1 for cycles in age]

    async def watch(ctx):
        while len(finished) < len(wanted):
            await ctx.tick().until(dut.full)
            finished.append(len(finished))

    read = []

    async def drain(ctx):
        nonlocal seen
        for half, sweeps in enumerate(wanted):
            while len(finished) <= half:
                await ctx.tick()
            for index in range(lengths[half] + 1):
                request(ctx, dut.read, index < lengths[half], half % 2, index)
                assert ctx.get(dut.reading)
                await move(ctx, dut, rng)
                if index:  # the word asked for an enabled cycle before
                    while rng.random() < 0.5:
                        await ctx.tick()
                    assert list(ctx.get(dut.read.data)[ctx.get(dut.read.data_half)]) == [
                        sum(lane) for lane in zip(*(s[index - 1] for s in sweeps), strict=True)
                    ]
                    seen += 1
            assert not ctx.get(dut.reading)
            read.append(half)

    simulate(dut, add, watch, drain, limit=5000)
    assert seen == sum(lengths) > 0


def test_halves_in_turn():
    """Reads of both halves follow one another: each word comes with its own half, two moves after it was asked for."""
    config = PRESETS["tiny"]
    dut = Accumulator(config)
    rng = seeded(5)
    words = [[[rng.randrange(-99, 99) for _ in range(config.cols)] for _ in range(8)] for _ in range(2)]
    asked = []  # what is on its way
    seen = 0

    async def bench(ctx):
        nonlocal seen
        for half, rows in enumerate(words):
            for index, row in enumerate(rows):
                ctx.set(dut.tag, {"valid": 1, "half": half, "overwrite": 1, "end_sweep": index == 7, "full": 0})
                await ctx.tick()
                ctx.set(dut.tag, {"valid": 0})
                ctx.set(dut.psum, row)
        await ctx.tick().repeat(dut.latency + 1)
        for _ in range(60):
            valid, half, addr = rng.random() < 0.8, rng.getrandbits(1), rng.randrange(8)
            request(ctx, dut.read, valid, half, addr)
            asked.append((half, addr) if valid else None)
            await move(ctx, dut, rng, busy=any(asked[-2:]))
            request(ctx, dut.read, 0, 1 - half, 0)
            while rng.random() < 0.5:
                await ctx.tick()
            if asked[-2:-1] and asked[-2]:
                half, addr = asked[-2]
                assert ctx.get(dut.read.data_half) == half
                assert list(ctx.get(dut.read.data)[half]) == words[half][addr]
                seen += 1

    simulate(dut, bench)
    assert seen > 30
