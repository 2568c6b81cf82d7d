"""The host link behind a line of bytes: answers, registers and memory against a model of the protocol."""

from dataclasses import replace

import pytest
from adagp.rtl.link.byte_link import ByteLink
from adagp.spec.link import FLAG, Kind, Outcome
from adagp.spec.presets import preset
from bench import seeded, simulate
from link_bench import Line, Memory, Model, Registers

PAGE = 256
"""Size of the page of random addresses: small, so that requests meet."""


def bad(space, address):
    """Addresses that are refused."""
    return address % PAGE >= 240


def linked(config, rng):
    """A link with everything around it, and the tasks that this takes."""
    dut = ByteLink(config, config.clock_hz)
    buses = [
        Registers(dut.ports.csr, rng, lambda address: bad(0, address)),
        Registers(dut.ports.dram_csr, rng, lambda address: bad(1, address)),
        Memory(dut.ports.m_axi, rng, lambda address: bad(2, address)),
    ]
    line, model = Line(dut, rng), Model(config, config.clock_hz, bad)
    return dut, buses, line, model, [*(task for bus in buses for task in bus.tasks), line.receive]


def at_random(rng, errors):
    """A request's kind, length, address and payload."""
    kind = rng.choice([k for k in Kind if k != Kind.HELLO])
    address, length = rng.randrange(*((200, PAGE, 4) if errors else (0, 240, 4))), 4
    if kind in (Kind.READ_MEMORY, Kind.WRITE_MEMORY):
        address = rng.randrange(*((150, PAGE) if errors else (0, 180)))
        length = rng.randrange(60)
    if kind == Kind.WAIT:
        length, address = 0, rng.randrange(50)
    return kind, length, address, bytes(rng.randrange(256) for _ in range(length * kind.writes))


def agree(buses, model, line):
    """Nothing was written but what the model says, each beat once; and every answer is right."""
    assert line.bodies == model.answers
    for space, bus in enumerate(buses):
        assert len(bus.log) == model.written[space] > 0
        if space == 2:
            assert bus.words == model.bytes[2]
        else:
            words = {address: value.to_bytes(4, "little") for address, value in bus.words.items()}
            assert {a + i: byte for a, word in words.items() for i, byte in enumerate(word)} == model.bytes[space]


@pytest.mark.parametrize("width", [64, 256])
def test_requests(width):
    """In order, without mishaps, some of them refused by their bus."""
    rng = seeded(width)
    config = replace(preset("tiny"), port_width=width)
    dut, buses, line, model, tasks = linked(config, rng)

    async def host(ctx):
        for number in range(3):
            strange = number, *rng.choice([(Kind.READ_CSR, 4, 0, b""), (Kind.WRITE_MEMORY, 2, 0, b"no")])
            await line.send(ctx, model.framed(*strange))
            model.take(*strange)
        for number in range(60):
            sequence = (number + 230) % 256
            request = at_random(rng, errors=number > 20) if number else (Kind.HELLO, 0, 0, b"")
            await line.send(ctx, model.framed(sequence, *request))
            model.take(sequence, *request)
            while len(line.bodies) < len(model.answers):
                await ctx.tick()

    simulate(dut, host, background=tasks, limit=400_000)
    agree(buses, model, line)
    assert len(model.answers) == 63 and model.fault


def test_mishaps():
    """Repeated, early and broken requests, noise between them: nothing acts twice, or out of turn."""
    rng = seeded(9)
    dut, buses, line, model, tasks = linked(preset("tiny"), rng)
    seen = dict.fromkeys(("again", "early", "broken", "noise", "hello"), 0)

    async def host(ctx):
        history, sequence = [], 7
        await line.send(ctx, model.framed(6, Kind.HELLO, 0, 0))
        model.take(6, Kind.HELLO, 0, 0)
        for _ in range(60):
            while rng.random() < 0.5:
                mishap = rng.choice(list(seen))
                seen[mishap] += 1
                whole = model.framed(sequence, *at_random(rng, False))
                if mishap == "again" and history:
                    old = rng.choice(history[-20:])
                    await line.send(ctx, model.framed(*old))
                    model.take(*old)
                elif mishap == "early":
                    late = (sequence + rng.randrange(1, 100)) % 256, *at_random(rng, False)
                    await line.send(ctx, model.framed(*late))
                    model.take(*late)
                elif mishap == "broken":
                    place = rng.randrange(1, len(whole) - 1)
                    byte = whole[place] ^ rng.randrange(1, 256)
                    await line.send(ctx, whole[:place] + bytes([byte] * rng.randrange(3)) + whole[place + 1 :])
                elif mishap == "noise":
                    await line.send(ctx, bytes(rng.randrange(256) for _ in range(rng.randrange(30))) + bytes([FLAG]))
                elif mishap == "hello":
                    sequence = rng.randrange(256)
                    await line.send(ctx, model.framed(sequence, Kind.HELLO, 0, 0))
                    model.take(sequence, Kind.HELLO, 0, 0)
                    sequence, history = (sequence + 1) % 256, []
                while len(line.bodies) < len(model.answers):
                    await ctx.tick()
            request = sequence, *at_random(rng, False)
            await line.send(ctx, model.framed(*request))
            model.take(*request)
            history.append(request)
            sequence = (sequence + 1) % 256
            while len(line.bodies) < len(model.answers):
                await ctx.tick()

    simulate(dut, host, background=tasks, limit=900_000)
    agree(buses, model, line)
    assert min(seen.values()) > 3
    outcomes = [body[-1] for body in model.answers]
    assert any(o & Outcome.REPEATED for o in outcomes) and any(o & Outcome.EARLY for o in outcomes)


def test_a_stream_of_requests():
    """Sent one right behind the other, answers meanwhile."""
    rng = seeded(11)
    dut, buses, line, model, tasks = linked(preset("tiny"), rng)

    async def host(ctx):
        requests = [(Kind.HELLO, 0, 0, b"")]
        for _ in range(40):
            kind = rng.choice([Kind.WRITE_CSR, Kind.WRITE_DRAM_CSR, Kind.WRITE_MEMORY, Kind.READ_CSR])
            length = 4 if kind != Kind.WRITE_MEMORY else rng.randrange(1, 150)
            payload = bytes(rng.randrange(256) for _ in range(length * kind.writes))
            requests.append((kind, length, 4 * rng.randrange(20), payload))
        for sequence, request in enumerate(requests):
            await line.send(ctx, model.framed(sequence, *request))
            model.take(sequence, *request)
        while len(line.bodies) < len(model.answers):
            await ctx.tick()

    simulate(dut, host, background=tasks, limit=400_000)
    agree(buses, model, line)


def test_waiting():
    """An answer comes with the interrupt, at the latest after the cycles given, or when something else is asked."""
    rng = seeded(12)
    dut, _, line, _, tasks = linked(preset("tiny"), rng)
    framed = Model.framed
    took = {}

    async def timed(ctx, name, after):
        number, cycles = len(line.bodies), 0
        while len(line.bodies) == number:
            if cycles == after:
                ctx.set(dut.irq, 1)
            await ctx.tick()
            cycles += 1
        took[name] = cycles, line.bodies[-1][-1]

    async def host(ctx):
        await line.send(ctx, framed(None, 0, Kind.HELLO, 0, 0))
        await timed(ctx, "hello", -1)
        await line.send(ctx, framed(None, 1, Kind.WAIT, 0, 3000))
        await timed(ctx, "time", -1)
        await line.send(ctx, framed(None, 2, Kind.WAIT, 0, 5000))
        await timed(ctx, "interrupt", 1000)
        ctx.set(dut.irq, 0)
        await line.send(ctx, framed(None, 3, Kind.WAIT, 0, 1_000_000))
        await line.send(ctx, framed(None, 4, Kind.READ_CSR, 4, 0))
        await timed(ctx, "other", -1)
        await timed(ctx, "behind", -1)

    simulate(dut, host, background=tasks)
    assert 3000 < took["time"][0] < 3100 and took["time"][1] == 0
    assert 1000 < took["interrupt"][0] < 1100 and took["interrupt"][1] == Outcome.IRQ
    assert took["other"][0] < 200 and [body[1] for body in line.bodies[-2:]] == [Kind.WAIT, Kind.READ_CSR]
