"""Floating-point fields against Python's struct, and the order of special values."""

import struct
from itertools import product

import pytest
from adagp.rtl.bfloat16.format import BFLOAT16, FLOAT32, selected
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from bench import seeded, simulate


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -2.5, 3.0e38, -1.0e-38, float("inf"), float("-inf")])
def test_fields_of_numbers(value):
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    whole = FLOAT32.from_bits(bits)
    fields = (bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF)
    assert (whole.sign, whole.exponent, whole.fraction) == fields
    half = BFLOAT16.from_bits(bits >> 16)  # bfloat16 is the upper half of binary32
    assert (half.sign, half.exponent, half.fraction) == (fields[0], fields[1], fields[2] >> 16)
    assert (FLOAT32.size, BFLOAT16.size) == (32, 16)


class Selection(wiring.Component):
    """``selected`` with ports."""

    sign: In(1)
    number: In(31)
    nan: In(1)
    infinite: In(1)
    zero: In(1)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += Signal().eq(self.sign)  # the simulator needs a clock
        m.d.comb += self.o.eq(selected(self.sign, self.number, nan=self.nan, infinite=self.infinite, zero=self.zero))
        return m


def test_special_values():
    rng, dut, seen = seeded(2), Selection(), set()

    async def bench(ctx):
        for flags in product((0, 1), repeat=3):
            for _ in range(20):
                sign, number = rng.getrandbits(1), rng.getrandbits(31)
                for port, value in zip(
                    (dut.sign, dut.number, dut.nan, dut.infinite, dut.zero), (sign, number, *flags), strict=True
                ):
                    ctx.set(port, value)
                nan, infinite, zero = flags
                expected = 0x7FC0_0000 if nan else sign << 31 | (0x7F80_0000 if infinite else 0 if zero else number)
                await ctx.delay(1e-9)
                assert ctx.get(dut.o) == expected
                seen.add((flags, sign))
        await ctx.tick()

    simulate(dut, bench)
    assert len(seen) == 16
