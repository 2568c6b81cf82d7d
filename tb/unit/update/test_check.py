"""UpdateCheck against the rules in plain Python: alignment first, then a region for each written array."""

from dataclasses import replace

import pytest
from adagp.rtl.update.check import UpdateCheck
from adagp.spec.errors import ErrorCode
from adagp.spec.presets import preset
from adagp.spec.registers import N_REGIONS
from bench import seeded, simulate

TINY = preset("tiny")
CONFIGS = {"baseline": TINY, "max": replace(TINY, variant="max"), "wide": replace(TINY, port_width=128)}
SIZES = (2, 2, 4, 8)
"""Bytes of an element of the arrays hi, lo, v and, of ADAM alone, d; array 0, the gradient, is only read."""


def judged(addresses, count, regions, n_written, beat_bytes):
    """The error code by docs/machine.md: an address is wrong before a region is."""
    if any(address % beat_bytes for address in addresses):
        return ErrorCode.BAD_ADDRESS
    written = [(a, a + count * s) for a, s in zip(addresses[1:], SIZES, strict=False)][:n_written]
    inside = [any(start <= a and b <= end for start, end in regions) for a, b in written]
    return ErrorCode.NONE if count == 0 or all(inside) else ErrorCode.WRITE_REGION


@pytest.mark.parametrize("name", CONFIGS)
def test_random_commands(name):
    rng, config = seeded(len(name)), CONFIGS[name]
    dut, seen = UpdateCheck(config), []
    n_arrays = 5 if config.predicts else 4

    async def bench(ctx):
        for _ in range(400):
            count = rng.choice((0, 1, 7, 64, 0x4000))
            regions = [(start := rng.randrange(1 << 12) * 16, start + rng.choice((0, 64, 256, 0x2_0000)))
                       for _ in range(N_REGIONS)]  # fmt: skip
            addresses = []
            for size in (0, *SIZES)[:n_arrays]:
                start, end = rng.choice(regions)
                spare = max(0, end - start - count * size) // 16 * 16
                address = start + rng.choice((0, spare, spare // 2, spare + 16)) // 16 * 16
                addresses.append(max(0, address - 16 if rng.random() < 0.05 else address))
            if rng.random() < 0.1:
                addresses[rng.randrange(n_arrays)] += rng.choice((1, 2, 4))
            n_written = rng.choice((2, 3, 4)) if config.predicts else 3
            for k, address in enumerate(addresses):
                ctx.set(dut.addr[k], address)
            for k, (start, end) in enumerate(regions):
                ctx.set(dut.regions[k], {"start": start, "end": end})
            ctx.set(dut.count, count)
            if config.predicts:
                ctx.set(dut.with_d, n_written == 4)
                ctx.set(dut.without_v, n_written == 2)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            cycles = 1
            while not ctx.get(dut.valid):
                await ctx.tick()
                cycles += 1
            assert cycles <= dut.CYCLES + 4 * (n_written == 4)
            code = ErrorCode(ctx.get(dut.code))
            assert code == judged(addresses, count, regions, n_written, config.beat_bytes)
            seen.append(code)
            await ctx.tick()
            assert not ctx.get(dut.valid)  # for one cycle

    simulate(dut, bench)
    assert min(seen.count(code) for code in (ErrorCode.NONE, ErrorCode.BAD_ADDRESS, ErrorCode.WRITE_REGION)) > 20
