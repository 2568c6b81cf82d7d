"""The host link at the end of a line of bits: requests in and answers out, both directions at once."""

import pytest
from adagp.host.devices.frames import Unframer
from adagp.rtl.link.link import Link
from adagp.spec.link import Kind
from adagp.spec.presets import preset
from bench import seeded, simulate
from link_bench import Memory, Model, Registers

CONFIG = preset("tiny")
CYCLES = 10
"""Clock cycles a bit."""


def never(*_):
    return False


async def send(ctx, rx, data):
    """A byte's start bit, its bits from the lowest on, its stop bit."""
    for byte in data:
        for bit in (0, *(byte >> n & 1 for n in range(8)), 1):
            ctx.set(rx, bit)
            await ctx.tick().repeat(CYCLES)


def receiver(tx, data):
    """A task that reads bytes off a line, in the middle of each bit."""

    async def run(ctx):
        while True:
            if ctx.get(tx):
                await ctx.tick()
                continue
            await ctx.tick().repeat(CYCLES // 2)
            bits = []
            for _ in range(9):
                await ctx.tick().repeat(CYCLES)
                bits.append(ctx.get(tx))
            assert bits[8] == 1, "no stop bit"
            data.append(sum(bit << n for n, bit in enumerate(bits[:8])))

    return run


def test_requests_over_bits():
    rng = seeded(11)
    dut = Link(CONFIG, CONFIG.clock_hz // CYCLES)
    buses = [Registers(bus, rng, never) for bus in (dut.csr, dut.dram_csr)] + [Memory(dut.m_axi, rng, never)]
    model, unframer, data, bodies = Model(CONFIG, CONFIG.clock_hz, never), Unframer(), [], []
    requests = [(Kind.HELLO, 0, 0, b""), (Kind.WRITE_CSR, 4, 8, b"\x01\x02\x7e\x7d"), (Kind.READ_CSR, 4, 8, b""),
                (Kind.WRITE_MEMORY, 5, 3, b"\x00\xff\x55\x7e\xaa"), (Kind.READ_MEMORY, 9, 1, b""),
                (Kind.WRITE_DRAM_CSR, 4, 16, b"\x09\x08\x07\x06"), (Kind.READ_DRAM_CSR, 4, 16, b"")]  # fmt: skip

    async def host(ctx):
        for sequence, request in enumerate(requests):
            await send(ctx, dut.rx, model.framed(sequence, *request))
            model.take(sequence, *request)
            while len(bodies) < len(model.answers):
                await ctx.tick()
                taken, data[:] = bytes(data), []
                bodies.extend(unframer.feed(taken))

    simulate(dut, host, background=[*(task for bus in buses for task in bus.tasks), receiver(dut.tx, data)])
    assert bodies == model.answers and len(bodies) == len(requests)
    assert buses[0].words == {8: 0x7D7E0201} and buses[1].words == {16: 0x06070809}
    assert buses[2].words == dict(zip(range(3, 8), b"\x00\xff\x55\x7e\xaa", strict=True))


@pytest.mark.parametrize("baud", [CONFIG.clock_hz, CONFIG.clock_hz // 2])
def test_a_line_too_fast_for_the_clock_is_refused(baud):
    with pytest.raises(ValueError, match=str(baud)):
        Link(CONFIG, baud)
