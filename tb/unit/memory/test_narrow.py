"""A client of 64 bits before ports of 128 and 256: every piece arrives, in order, and nothing else."""

from dataclasses import replace

import pytest
from adagp.rtl.memory.axi import BEGUN
from adagp.rtl.memory.narrow import READ_BEATS, WRITE_BURSTS, NarrowRead, NarrowWrite
from adagp.spec.presets import preset
from bench import seeded, simulate, sink, source
from dma_bench import check_burst

TINY = preset("tiny")
PIECE = TINY.beat_bytes
BURSTS = 120


def port_of(width):
    return replace(TINY, port_width=width)


def word(address, n_bytes):
    return sum(((address + i) * 0x9D ^ (address + i) >> 8 & 0xFF) % 256 << 8 * i for i in range(n_bytes))


def random_bursts(rng):
    """Addresses and pieces, in the aligned blocks of ``max_burst_beats`` pieces that bursts keep to."""
    for _ in range(BURSTS):
        first = rng.randrange(TINY.max_burst_beats)
        longest = TINY.max_burst_beats - first
        length = rng.choice((1, rng.randint(1, min(6, longest)), rng.randint(1, longest)))
        yield (rng.randrange(64) * TINY.max_burst_beats + first) * PIECE, min(length, longest)


def requests(bursts):
    return [{"addr": address, "length": length - 1} for address, length in bursts]


async def serve(ctx, port, config, bursts, rng, stall):
    """Take a request for each of the bursts, which must be what that needs; give them as they come."""
    for address, length in bursts:
        (request,) = await sink(ctx, port, 1, rng, stall)
        check_burst(config, request.addr, request.length)
        beat = config.beat_bytes
        end = address + length * PIECE
        assert (request.addr, request.length + 1) == (address // beat * beat, -(-end // beat) - address // beat)
        yield request.addr, request.length + 1


@pytest.mark.parametrize("width", [128, 256])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_reads(width, stall):
    rng, config = seeded(width), port_of(width)
    dut = NarrowRead(TINY, config)
    bursts, asked, seen = list(random_bursts(rng)), [], []
    refused = {address // config.beat_bytes for address, _ in bursts[::7]}

    async def ask(ctx):
        await source(ctx, dut.client.request, requests(bursts), rng, stall)

    async def take_requests(ctx):
        async for burst in serve(ctx, dut.port.request, config, bursts, rng, stall):
            asked.append(burst)

    async def answer(ctx):
        for number in range(BURSTS):
            while len(asked) == number:
                await ctx.tick()
            address, beats = asked[number]
            for place in range(address, address + beats * config.beat_bytes, config.beat_bytes):
                beat = {"data": word(place, config.beat_bytes), "fault": place // config.beat_bytes in refused}
                await source(ctx, dut.port.beats, [beat], rng, stall)

    async def take(ctx):
        seen.extend(await sink(ctx, dut.client.beats, sum(length for _, length in bursts), rng, stall))

    simulate(dut, ask, take_requests, answer, take)
    places = [address + i * PIECE for address, length in bursts for i in range(length)]
    assert [beat.data for beat in seen] == [word(place, PIECE) for place in places]
    faults = [place // config.beat_bytes in refused for place in places]
    assert [bool(beat.fault) for beat in seen] == faults and len(faults) > sum(faults) > 20


@pytest.mark.parametrize("width", [128, 256])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_writes(width, stall):
    """Every byte, at its place and no other; a burst is asked for when its beats are there, which don't pause then."""
    rng, config = seeded(width), port_of(width)
    dut = NarrowWrite(TINY, config)
    bursts, written, wanted, done, answers = list(random_bursts(rng)), [], [], [], []

    async def ask(ctx):
        await source(ctx, dut.client.request, requests(bursts), rng, stall)

    async def give(ctx):
        for address, length in bursts:
            for place in range(address, address + length * PIECE, PIECE):
                strobe = rng.choice((255, rng.randrange(256)))
                wanted.extend((place + i, word(place + i, 1)) for i in range(PIECE) if strobe >> i & 1)
                await source(ctx, dut.client.beats, [{"data": word(place, PIECE), "strobe": strobe}], rng, stall)

    async def take(ctx):
        async for address, beats in serve(ctx, dut.port.request, config, bursts, rng, stall):
            await ctx.tick()
            ctx.set(dut.port.beats.ready, 1)
            for place in range(address, address + beats * config.beat_bytes, config.beat_bytes):
                assert ctx.get(dut.port.beats.valid)
                beat = ctx.get(dut.port.beats.payload)
                written.extend((place + i, beat.data >> 8 * i & 255) for i in range(width // 8) if beat.strobe >> i & 1)
                await ctx.tick()
            ctx.set(dut.port.beats.ready, 0)
            done.append(address)

    async def answer(ctx):
        for number in range(BURSTS):
            while len(done) == number:
                await ctx.tick()
            ctx.set(dut.port.answer.payload.fault, number % 3 == 0)
            ctx.set(dut.port.answer.valid, 1)
            answers.append(ctx.get(dut.client.answer.valid) and ctx.get(dut.client.answer.payload.fault))
            await ctx.tick()
            ctx.set(dut.port.answer.valid, 0)
            assert not ctx.get(dut.client.answer.valid)

    simulate(dut, ask, give, take, answer)
    assert written == wanted and len(written) > 1000
    assert answers == [number % 3 == 0 for number in range(BURSTS)]


def test_beats_that_have_no_room():
    """Long bursts fill the queue while none is let go; then the client waits, and nothing is lost."""
    dut, longest = NarrowWrite(TINY, port_of(128)), TINY.max_burst_beats
    pieces, seen, paused = WRITE_BURSTS * longest, [], 0

    async def give(ctx):
        nonlocal paused
        ctx.set(dut.client.request.payload, {"addr": 0, "length": longest - 1})
        ctx.set(dut.client.request.valid, 1)
        await ctx.tick().repeat(WRITE_BURSTS)
        ctx.set(dut.client.request.valid, 0)
        for number in range(pieces):
            ctx.set(dut.client.beats.payload, {"data": number, "strobe": 255})
            ctx.set(dut.client.beats.valid, 1)
            while not ctx.get(dut.client.beats.ready):
                paused += 1
                await ctx.tick()
            await ctx.tick()
        ctx.set(dut.client.beats.valid, 0)

    async def take(ctx):
        await ctx.tick().repeat(2 * pieces)
        ctx.set(dut.port.request.ready, 1)
        ctx.set(dut.port.beats.ready, 1)
        while len(seen) < pieces:
            if ctx.get(dut.port.beats.valid):
                data = ctx.get(dut.port.beats.payload.data)
                seen.extend((data % (1 << 64), data >> 64))
            await ctx.tick()

    simulate(dut, give, take)
    assert seen == list(range(pieces)) and paused > pieces / 2


def test_bursts_that_may_begin():
    """BEGUN may be unanswered; while ``hold`` none is taken, and those that were leave."""
    dut = NarrowWrite(TINY, port_of(256))
    taken = left = 0

    async def bench(ctx):
        nonlocal taken, left
        ctx.set(dut.client.request.valid, 1)
        ctx.set(dut.client.beats.valid, 1)
        ctx.set(dut.port.request.ready, 1)
        ctx.set(dut.port.beats.ready, 1)
        for cycle in range(400):
            ctx.set(dut.hold, 5 <= cycle < 60)
            taken += ctx.get(dut.client.request.ready)
            left += ctx.get(dut.port.request.valid)
            if cycle == 5:
                held = taken
                assert held > 0
            if cycle == 59:
                assert taken == left == held
            await ctx.tick()
        assert taken == left == BEGUN
        ctx.set(dut.port.answer.valid, 1)
        await ctx.tick()
        ctx.set(dut.port.answer.valid, 0)
        assert ctx.get(dut.client.request.ready)

    simulate(dut, bench)


def test_a_piece_a_cycle_and_bursts_behind_each_other():
    """As many requests as may be under way pass at once; their beats don't wait for the pieces, which have no gaps."""
    config = port_of(256)
    dut = NarrowRead(TINY, config)
    bursts = [(PIECE * (64 * number + 3), 6) for number in range(BEGUN)]
    valid = []

    async def ask(ctx):
        ctx.set(dut.port.request.ready, 1)
        for request in requests(bursts):
            ctx.set(dut.client.request.payload, request)
            ctx.set(dut.client.request.valid, 1)
            assert ctx.get(dut.client.request.ready) and ctx.get(dut.port.request.valid)
            await ctx.tick()
        assert not ctx.get(dut.client.request.ready) and not ctx.get(dut.port.request.valid)
        ctx.set(dut.client.request.valid, 0)
        ctx.set(dut.port.beats.valid, 1)
        for _ in range(READ_BEATS + 1):
            assert ctx.get(dut.port.beats.ready)
            await ctx.tick()
        assert not ctx.get(dut.port.beats.ready)
        ctx.set(dut.client.beats.ready, 1)
        for _ in range(6 * BEGUN):
            valid.append(ctx.get(dut.client.beats.valid))
            await ctx.tick()

    simulate(dut, ask)
    assert valid == [1] * (6 * BEGUN)
