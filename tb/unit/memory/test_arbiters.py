"""Arbiters against an AXI memory that interleaves ids, and clients that pause."""

from collections import deque

import pytest
from adagp.rtl.memory.arbiters import ReadArbiter, WriteArbiter
from adagp.rtl.memory.axi import OUTSTANDING
from adagp.spec.presets import preset
from bench import seeded, simulate, sink, source
from port_memory import AddressChannel, Steady

SLVERR = 2


def _word(addr, config):
    """The memory's word at ``addr``, which tells its address."""
    return (addr * 0x9E3779B97F4A7C15 + 1) % (1 << config.port_width)


def _requests(rng, config, count):
    return [
        {"addr": rng.randrange(1 << 20) * config.beat_bytes, "length": rng.choice((0, 0, 1, 3, 7))}
        for _ in range(count)
    ]


def _check_address(config, size, kind):
    assert 1 << size == config.beat_bytes
    assert kind == 1  # INCR


@pytest.mark.parametrize("name", ["tiny", "paper"])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_reads(name, stall):
    config, rng, n_clients, count = preset(name), seeded(12), 3, 25
    dut = ReadArbiter(config, n_clients)
    requests = [_requests(rng, config, count) for _ in range(n_clients)]
    open_bursts = [deque() for _ in range(n_clients)]
    peak, moved = [0], [0]

    async def take(ctx):
        channel = AddressChannel(dut.axi, "ar", lambda: rng.random() < stall)
        while True:
            number, addr, length, size, kind = await channel.take(ctx)
            _check_address(config, size, kind)
            open_bursts[number].append([addr, length])
            peak[0] = max(peak[0], sum(map(len, open_bursts)))

    async def answer(ctx):
        axi = dut.axi
        while True:
            busy = [i for i, bursts in enumerate(open_bursts) if bursts]
            if not busy or rng.random() < stall:
                ctx.set(axi.rvalid, 0)
                await ctx.tick()
                continue
            number = rng.choice(busy)  # ids interleave beat by beat
            addr, left = burst = open_bursts[number][0]
            refused = addr % 7 == 3 * config.beat_bytes % 7
            values = {"rvalid": 1, "rid": number, "rdata": _word(addr, config), "rlast": left == 0}
            for field, value in {**values, "rresp": SLVERR if refused else 0}.items():
                ctx.set(getattr(axi, field), value)
            await ctx.tick().until(axi.rready)
            burst[:] = addr + config.beat_bytes, left - 1
            if left == 0:
                open_bursts[number].popleft()

    async def count_beats(ctx):
        async for _, _, beat in ctx.tick().sample(dut.read_beats):
            moved[0] += beat

    def client(number):
        port = dut.clients[number]
        addresses = [r["addr"] + i * config.beat_bytes for r in requests[number] for i in range(r["length"] + 1)]

        async def ask(ctx):
            await source(ctx, port.request, requests[number], rng, stall)

        async def receive(ctx):
            beats = await sink(ctx, port.beats, len(addresses), rng, stall)
            assert [beat.data for beat in beats] == [_word(addr, config) for addr in addresses]
            assert [beat.fault for beat in beats] == [a % 7 == 3 * config.beat_bytes % 7 for a in addresses]
            assert len(beats) > 0

        return ask, receive

    benches = [bench for number in range(n_clients) for bench in client(number)]

    async def rest(ctx):
        await ctx.tick().until(~dut.idle)
        await ctx.tick().until(dut.idle)

    simulate(dut, *benches, rest, background=(take, answer, count_beats))
    assert moved[0] == sum(r["length"] + 1 for client in requests for r in client) > 0
    assert 2 < peak[0] <= OUTSTANDING


@pytest.mark.parametrize("name", ["tiny", "paper"])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_writes(name, stall):
    config, rng, n_clients, count = preset(name), seeded(13), 2, 30
    dut = WriteArbiter(config, n_clients)
    requests = [_requests(rng, config, count) for _ in range(n_clients)]
    strobes = {}
    beats = []
    for number, client in enumerate(requests):
        addresses = [r["addr"] + i * config.beat_bytes for r in client for i in range(r["length"] + 1)]
        beats.append(
            [{"data": _word(a + number, config), "strobe": rng.getrandbits(config.beat_bytes)} for a in addresses]
        )
        strobes[number] = [beat["strobe"] for beat in beats[-1]]
    order, written, unanswered, answers = deque(), [[] for _ in requests], [], [[] for _ in requests]
    n_bytes, sent = [0], []

    async def take(ctx):
        channel = AddressChannel(dut.axi, "aw", lambda: rng.random() < stall)
        while True:
            number, addr, length, size, kind = await channel.take(ctx)
            _check_address(config, size, kind)
            order.append([number, addr, length])
            sent.append((number, addr, length))

    async def write(ctx):
        axi, steady = dut.axi, Steady()
        while True:
            ready = bool(order) and rng.random() >= stall  # this memory wants the address first
            ctx.set(axi.wready, ready)
            _, _, valid, data, strobe, last = await ctx.tick().sample(axi.wvalid, axi.wdata, axi.wstrb, axi.wlast)
            if not steady.check(valid, ready, data, strobe, last):
                continue
            number, addr, left = burst = order[0]
            written[number].append((addr, data, strobe))
            assert last == (left == 0)
            burst[1:] = addr + config.beat_bytes, left - 1
            if left == 0:
                order.popleft()
                unanswered.append((number, rng.random() < 0.3))

    async def answer(ctx):
        axi = dut.axi
        while True:
            go = bool(unanswered) and rng.random() < 0.3
            ctx.set(axi.bvalid, go)
            if go:
                number, refused = unanswered.pop(0)
                ctx.set(axi.bid, number)
                ctx.set(axi.bresp, SLVERR if refused else 0)
                answers[number].append(refused)
            await ctx.tick()
            assert ctx.get(axi.bready)

    async def count_bytes(ctx):
        async for _, _, moved in ctx.tick().sample(dut.write_bytes):
            n_bytes[0] += moved

    def client(number):
        port, seen = dut.clients[number], []

        async def ask(ctx):
            await source(ctx, port.request, requests[number], rng, stall)

        async def send(ctx):
            await source(ctx, port.beats, beats[number], rng, stall)

        async def receive(ctx):
            while len(seen) < count:
                (fault,) = await ctx.tick().sample(port.answer.payload.fault).until(port.answer.valid)
                seen.append(fault)
            assert seen == answers[number]

        return ask, send, receive

    benches = [bench for number in range(n_clients) for bench in client(number)]

    async def rest(ctx):
        await ctx.tick().until(~dut.idle)
        await ctx.tick().until(dut.idle)

    simulate(dut, *benches, rest, background=(take, write, answer, count_bytes))
    for number, client_requests in enumerate(requests):
        addresses = [r["addr"] + i * config.beat_bytes for r in client_requests for i in range(r["length"] + 1)]
        expected = [(a, beat["data"], beat["strobe"]) for a, beat in zip(addresses, beats[number], strict=True)]
        assert written[number] == expected != []
    assert n_bytes[0] == sum(strobe.bit_count() for client in strobes.values() for strobe in client) > 0
    assert len(sent) == n_clients * count


@pytest.mark.parametrize("arbiter", [ReadArbiter, WriteArbiter])
def test_everyone_gets_a_turn(arbiter):
    """With all clients asking all the time, grants go round; ``OUTSTANDING`` bursts are the most."""
    dut = arbiter(preset("tiny"), 3)
    seen = []

    async def bench(ctx):
        prefix = "ar" if arbiter is ReadArbiter else "aw"
        ctx.set(getattr(dut.axi, f"{prefix}ready"), 1)
        for client in dut.clients:
            ctx.set(client.request.valid, 1)
        for _ in range(3 * OUTSTANDING):
            signals = [getattr(dut.axi, prefix + name) for name in ("valid", "id")]
            _, _, valid, number = await ctx.tick().sample(*signals)
            if valid:
                seen.append(number)

    simulate(dut, bench)
    assert len(seen) == OUTSTANDING
    assert seen[1:] == [(number + 1) % 3 for number in seen[:-1]]
