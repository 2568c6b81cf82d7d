"""Frames in hardware against those in software."""

import zlib

import pytest
from adagp.host.devices import frames
from adagp.rtl.link.frame_buffer import DEPTH, FrameBuffer
from adagp.rtl.link.frames import Framer, Unframer
from adagp.spec.link import ESCAPE, FLAG, MAX_PAYLOAD, Kind
from bench import seeded, simulate, sink, source

SPECIAL = (FLAG, ESCAPE, FLAG ^ 0x20, ESCAPE ^ 0x20)


def some_bytes(rng, count):
    """Many of them special."""
    return bytes(rng.choice([*SPECIAL, rng.randrange(256)]) for _ in range(count))


def test_a_frame_written_out():
    """The CRC of "123456789" is the one that catalogues give for CRC-32/ISO-HDLC."""
    assert frames.frame(b"123456789") == b"~123456789" + bytes.fromhex("2639f4cb") + b"~"
    assert frames.frame(b"~}\x20") == b"~}\x5e}\x5d\x20" + zlib.crc32(b"~}\x20").to_bytes(4, "little") + b"~"
    assert frames.request(3, Kind.WRITE_CSR, 4, 0x10, b"abcd").hex() == "03030400" + "10000000" + "61626364"


def test_software_takes_what_it_wrote():
    rng = seeded(1)
    bodies = [some_bytes(rng, rng.randrange(3, 60)) for _ in range(100)]
    line = b"".join(frames.frame(body) + some_bytes(rng, rng.randrange(5)) * (rng.random() < 0.3) for body in bodies)
    unframer, taken = frames.Unframer(), []
    while line:
        cut = rng.randrange(1, 40)
        taken += unframer.feed(line[:cut])
        line = line[cut:]
    assert taken == bodies
    broken = bytearray(frames.frame(b"some body"))
    broken[4] ^= 1
    before = unframer.bad
    assert unframer.feed(bytes(broken)) == [] and unframer.bad == before + 1


def test_framer():
    rng = seeded(2)
    bodies = [some_bytes(rng, rng.randrange(1, 30)) for _ in range(40)]
    line = b"".join(frames.frame(body) for body in bodies)
    dut = Framer()
    given = [
        {"data": byte, "last": place == len(body) - 1} for body in bodies for place, byte in enumerate(body)
    ]  # fmt: skip
    taken = []

    async def give(ctx):
        await source(ctx, dut.i, given, rng)

    async def take(ctx):
        taken.extend(await sink(ctx, dut.o, len(line), rng))

    simulate(dut, give, take)
    assert bytes(taken) == line


@pytest.mark.parametrize("gap", [0, 3])
def test_unframer(gap):
    """Whole frames among broken ones, each of which is spoilt in one way; flags end both."""
    rng = seeded(gap)
    dut = Unframer()
    expected, seen, body, n_spoilt = [], [], bytearray(), 0

    async def give(ctx):
        nonlocal n_spoilt
        for _ in range(150):
            content = some_bytes(rng, rng.randrange(1, 12))
            line, lost, good = frames.frame(content), -1, True
            match rng.randrange(5):
                case 0:
                    place = rng.randrange(1, len(line) - 1)
                    line, good = line[:place] + bytes([line[place] ^ 1 << rng.randrange(8)]) + line[place + 1 :], False
                case 1:
                    place = rng.randrange(1, len(line) - 1)
                    line, good = line[:place] + line[place + 1 :], False
                case 2:
                    lost, good = rng.randrange(1, len(line) - 1), False
                case 3:
                    line, good = line[:-1] + bytes([ESCAPE]) + line[-1:], False
            if good:
                expected.append(content + zlib.crc32(content).to_bytes(4, "little"))
            n_spoilt += not good
            for place, byte in enumerate(line):
                ctx.set(dut.i.payload, byte)
                ctx.set(dut.i.valid, place != lost)
                ctx.set(dut.error, place == lost)
                await ctx.tick()
                ctx.set(dut.i.valid, 0)
                ctx.set(dut.error, 0)
                for _ in range(rng.randrange(gap + 1)):
                    await ctx.tick()
            if rng.random() < 0.2:
                ctx.set(dut.i.payload, FLAG)
                ctx.set(dut.i.valid, 1)
                await ctx.tick()
                ctx.set(dut.i.valid, 0)

    async def watch(ctx):
        sampled = dut.o.valid, dut.o.payload, dut.end, dut.good
        async for _, _, valid, byte, end, good in ctx.tick().sample(*sampled):
            assert not (valid and end)
            if valid:
                body.append(byte)
            if end:
                seen.extend([bytes(body)] * good)
                body.clear()

    simulate(dut, give, background=[watch])
    assert seen == expected and len(expected) > 10 and n_spoilt > 50


def test_frame_buffer():
    """Whole frames come out in order, however the reader pauses, but for those that there is no room for."""
    rng = seeded(4)
    dut = FrameBuffer()
    kept, taken, dropped = [], bytearray(), {"bad": 0, "kind": 0, "length": 0, "full": 0}
    paused = False

    async def give(ctx):
        nonlocal paused
        for number in range(60):
            paused = number % 30 < 26
            if not paused:
                await ctx.tick().until(~dut.o.valid)
            kind = rng.choice([*Kind, *[Kind.WRITE_MEMORY] * 8])
            wrong = rng.choice(["", "", "", "bad", "kind", "length"])
            payload = some_bytes(rng, rng.choice([0, rng.randrange(900), rng.randrange(900)])) if kind.writes else b""
            n_claimed = len(payload) + (wrong == "length") if kind.writes else rng.randrange(MAX_PAYLOAD)
            body = frames.request(number, kind, n_claimed, rng.randrange(1 << 32), payload) + b"+CRC"
            if wrong == "kind":
                body = body[:1] + bytes([rng.randrange(8, 256)]) + body[2:]
            if wrong == "length" and not kind.writes:
                body = body[: rng.randrange(1, len(body))]
            before = len(b"".join(kept)) - len(taken)
            for place, byte in enumerate(body):
                ctx.set(dut.i.payload, byte)
                ctx.set(dut.i.valid, 1)
                await ctx.tick()
                ctx.set(dut.i.valid, 0)
                if place % 3 == 0:
                    await ctx.tick()
            ctx.set(dut.end, 1)
            ctx.set(dut.good, wrong != "bad")
            await ctx.tick()
            ctx.set(dut.end, 0)
            if wrong:
                dropped[wrong] += 1
            elif paused and before + len(body) > DEPTH + 1:  # one byte is out already
                dropped["full"] += 1
            else:
                assert before + len(body) <= DEPTH
                kept.append(body)
            if not paused:
                await ctx.tick().repeat(3 * len(body))
        paused = False
        await ctx.tick().until(~dut.o.valid)
        await ctx.tick().repeat(4)

    async def take(ctx):
        while True:
            ready = not paused and rng.random() < 0.9
            ctx.set(dut.o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if ready and valid:
                taken.append(payload)

    simulate(dut, give, background=[take])
    assert bytes(taken) == b"".join(kept) and len(kept) > 10 and all(dropped.values()), dropped
