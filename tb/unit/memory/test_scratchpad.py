"""Scratchpads against a plain list, with stalled readers and every rotation."""

from functools import partial

import pytest
from adagp.rtl.memory.scratchpad import PingPong, Scratchpad
from adagp.spec.presets import preset
from bench import seeded, simulate

DEPTH = 32


def _lanes(rng, config, depth):
    """A random rotation and a random word per lane."""
    return rng.randrange(config.banks), [rng.randrange(depth) for _ in range(config.banks)]


def _element(config, rot, words, lane):
    return words[lane] * config.banks + (rot + lane) % config.banks


async def _write(ctx, port, image, config, rng):
    """Write random lanes in this cycle and to ``image`` (a list by element address)."""
    rot, words = _lanes(rng, config, len(image) // config.banks)
    mask = rng.getrandbits(config.banks)
    values = [rng.randrange(-(1 << 15), 1 << 15) for _ in words]
    for port_field, value in ((port.mask, mask), (port.rot, rot), (port.addr, words), (port.data, values)):
        ctx.set(port_field, value)
    await ctx.tick()
    ctx.set(port.mask, 0)
    for lane, value in enumerate(values):
        if mask >> lane & 1:
            image[_element(config, rot, words, lane)] = value


async def _fill(ctx, port, image, config, words):
    """Give every element of ``words`` its own value, a word at a time."""
    for word in words:
        values = [(word * config.banks + b) * 7 % 30011 - 15000 for b in range(config.banks)]
        ctx.set(port.mask, -1)
        ctx.set(port.addr, [word] * config.banks)
        ctx.set(port.data, values)
        await ctx.tick()
        image[word * config.banks : (word + 1) * config.banks] = values
    ctx.set(port.mask, 0)


async def _read(ctx, port, latency, image, config, rng, count, stall, words=None, row=False):
    """Read random lanes of ``words()``, ``count`` times, in a pipeline of ``latency`` that stalls, and let it run dry.

    With ``row`` only the first lane is random, and the others follow it. A port with ``zeros`` gets random ones.
    """
    words = words or (lambda: range(len(image) // config.banks))
    expected, seen = [], 0
    while seen < count:
        move = rng.random() >= stall
        valid = len(expected) < count
        choice = words()
        rot, words_read = rng.randrange(config.banks), [rng.choice(choice) for _ in range(config.banks)]
        if row:
            at = choice.index(words_read[0])
            words_read = [choice[(at + (rot + lane) // config.banks) % len(choice)] for lane in range(config.banks)]
        for port_field, value in ((port.en, move), (port.valid, valid), (port.rot, rot), (port.addr, words_read)):
            ctx.set(port_field, value)
        zeros = rng.getrandbits(config.banks) if hasattr(port, "zeros") else 0
        if zeros:
            ctx.set(port.zeros, zeros)
        await ctx.tick()
        if zeros:
            ctx.set(port.zeros, 0)
        if move:
            expected.append([image[_element(config, rot, words_read, lane)] for lane in range(config.banks)])
        if move and len(expected) >= latency:
            operands = enumerate(expected[len(expected) - latency])
            assert list(ctx.get(port.data)) == [0 if zeros >> lane & 1 else operand for lane, operand in operands]
            seen += 1
    ctx.set(port.en, 0)
    ctx.set(port.valid, 1)
    return seen


@pytest.mark.parametrize("name", ["tiny", "paper"])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_reads_see_writes(name, stall):
    config, rng = preset(name), seeded(1)
    dut = Scratchpad(config, DEPTH)
    image = [0] * (DEPTH * config.banks)
    seen = []

    async def bench(ctx):
        await _fill(ctx, dut.write, image, config, range(DEPTH))
        for _ in range(20):
            for _ in range(5):
                await _write(ctx, dut.write, image, config, rng)
            for _ in range(Scratchpad.WRITE_LATENCY - 1):
                await ctx.tick()
            seen.append(await _read(ctx, dut.read, dut.READ_LATENCY, image, config, rng, 10, stall))

    simulate(dut, bench)
    assert sum(seen) == 20 * 10


@pytest.mark.parametrize(("later", "expected"), [(0, 5), (1, -1), (2, 0)])
def test_write_latency_is_exact(later, expected):
    """A write as late as a read sees it; one that comes at the same time as it, whose word is spoilt; one after it."""
    config = preset("tiny")
    dut = Scratchpad(config, DEPTH)
    asked = 2
    seen = []

    async def bench(ctx):
        ctx.set(dut.read.en, 1)
        ctx.set(dut.write.data, [5] * config.banks)
        for cycle in range(asked + Scratchpad.READ_LATENCY):
            ctx.set(dut.write.mask, cycle == asked - Scratchpad.WRITE_LATENCY + later)
            await ctx.tick()
        seen.append(ctx.get(dut.read.data[0]))

    simulate(dut, bench)
    assert seen == [expected]


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_pingpong_halves_are_independent(stall):
    """Both ports at once on opposite halves, places changed each phase; then each alone on both halves."""
    config, rng = preset("tiny"), seeded(2)
    dut = PingPong(config, DEPTH // 2)
    halves = range(DEPTH // 2), range(DEPTH // 2, DEPTH)
    image = [0] * (DEPTH * config.banks)
    seen, arrived = [], []
    phases, count = 6, 40

    def user(port):
        async def bench(ctx):
            read, write = (dut.read0, dut.write0) if port == 0 else (dut.read1, dut.write1)
            read_of = partial(_read, ctx, read, dut.READ_LATENCY, image, config, rng, count, stall, row=port)
            await _fill(ctx, write, image, config, halves[port])
            for phase in range(phases):
                arrived.append(phase)
                while arrived.count(phase) < 2:  # the other port may still be using this half
                    await ctx.tick()
                await ctx.tick().repeat(2)
                words = halves[(phase + port) % 2]
                seen.append(await read_of(lambda words=words: words))
            await ctx.tick().repeat(1 + port * 4 * count)
            seen.append(await read_of(lambda: rng.choice(halves)))

        return bench

    simulate(dut, user(0), user(1))
    assert sum(seen) == 2 * (phases + 1) * count
