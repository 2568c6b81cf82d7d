"""The serial line's two ends, against lines written out bit by bit in time."""

from fractions import Fraction

import pytest
from adagp.rtl.link.uart import UartReceiver, UartTransmitter, phase_step
from bench import seeded, simulate, source

CLOCK = 100_000_000
RATES = [25_000_000, 12_000_000, 3_000_000]
BITS = 10


def line(data, cycles_per_bit, start):
    """The level of the line in cycles from 0 on, its bytes one right behind the other from time ``start`` on."""
    bits = [bit for byte in data for bit in (0, *(byte >> i & 1 for i in range(8)), 1)]
    end = start + len(bits) * cycles_per_bit
    for cycle in range(int(end) + 40):
        place = (cycle - start) / cycles_per_bit
        yield bits[int(place)] if 0 <= place < len(bits) else 1


@pytest.mark.parametrize("baud", RATES)
@pytest.mark.parametrize("off", [0, Fraction(1, 40), Fraction(-1, 40)])
def test_receiver(baud, off):
    """Every byte, wherever in a cycle its bits begin; with 8 cycles a bit or more from a clock that is 2.5 % off."""
    rng = seeded(baud)
    data = [0, 255, 0x55, *(rng.randrange(256) for _ in range(6))]
    dut = UartReceiver(baud, CLOCK)
    cycles_per_bit = Fraction(CLOCK, baud) * (1 + (off if CLOCK / baud >= 8 else 0))
    seen = []

    async def drive(ctx):
        for level in line(data, cycles_per_bit, Fraction(rng.randrange(100), 10)):
            ctx.set(dut.rx, level)
            await ctx.tick()

    async def watch(ctx):
        async for _, _, valid, payload, error in ctx.tick().sample(dut.o.valid, dut.o.payload, dut.error):
            assert not error
            if valid:
                seen.append(payload)

    simulate(dut, drive, background=[watch])
    assert seen == data


def test_receiver_wants_stop_bits():
    """A line that stays low is one error, and bytes count again once it has been high; so are spikes no start bits."""
    dut = UartReceiver(CLOCK // 16, CLOCK)
    seen, errors = [], 0

    async def drive(ctx):
        for level in [1] * 20 + [0] * 1000 + [1] * 40 + [0] * 4 + [1] * 100 + list(line([0xA5], 16, 0)):
            ctx.set(dut.rx, level)
            await ctx.tick()

    async def watch(ctx):
        nonlocal errors
        async for _, _, valid, payload, error in ctx.tick().sample(dut.o.valid, dut.o.payload, dut.error):
            errors += error
            if valid:
                seen.append(payload)

    simulate(dut, drive, background=[watch])
    assert (seen, errors) == ([0xA5], 1)


@pytest.mark.parametrize("baud", RATES)
@pytest.mark.parametrize("stall", [0.0, 0.97])
def test_transmitter(baud, stall):
    """Bits last what they should to within a cycle, however many follow; the line is never idle while bytes wait."""
    rng = seeded(baud)
    data = [0, 255, 0x55, *(rng.randrange(256) for _ in range(6))]
    dut = UartTransmitter(baud, CLOCK)
    levels, taken = [], 0

    async def drive(ctx):
        nonlocal taken
        for byte in data:
            await source(ctx, dut.i, [byte], rng, stall)
            taken += 1
        await ctx.tick().repeat(12 * CLOCK // baud + 4)

    async def watch(ctx):
        async for _, _, tx in ctx.tick().sample(dut.tx):
            levels.append(tx)

    simulate(dut, drive, background=[watch])
    cycles_per_bit, place, begins = CLOCK / baud, 0, []
    for byte in data:
        begin = levels.index(0, place)
        begins.append(begin)
        bits = (0, *(byte >> i & 1 for i in range(8)), 1)
        for number, bit in enumerate(bits):
            first, last = begin + number * cycles_per_bit + 1, begin + (number + 1) * cycles_per_bit - 1
            assert all(level == bit for level in levels[int(first + 0.999) : int(last)])
        place = int(begin + (BITS - 0.5) * cycles_per_bit)
    assert taken == len(data)
    if not stall:
        assert abs(begins[-1] - begins[0] - (len(data) - 1) * BITS * cycles_per_bit) <= 1


def test_rates():
    assert phase_step(CLOCK // 4, CLOCK) == 1 << 22
    for baud in (0, -1, CLOCK // 4 + 1):
        with pytest.raises(ValueError, match=rf"^baud = {baud} must satisfy 0 < 4 \* baud <= clock_hz = {CLOCK}$"):
            phase_step(baud, CLOCK)
