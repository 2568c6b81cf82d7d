"""Delays against a list of past values, with an enable that comes and goes."""

import pytest
from adagp.rtl.lib.delay import delayed, registered
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from bench import seeded, simulate


class Delays(wiring.Component):
    """``delayed`` and ``registered`` with ports."""

    i: In(8)
    en: In(1)
    o: Out(8)
    kept: Out(8)

    def __init__(self, cycles):
        super().__init__()
        self._cycles = cycles

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(delayed(m, self.i, self._cycles, self.en))
        registered(m, self.kept, self.i, self.en)
        return m


@pytest.mark.parametrize("cycles", [0, 1, 2, 5])
def test_values_of_enabled_cycles(cycles):
    rng, dut, seen = seeded(cycles), Delays(cycles), 0

    async def bench(ctx):
        nonlocal seen
        past = [0] * (cycles + 1)  # values of enabled cycles, the registers' reset values first
        kept = 0
        for _ in range(300):
            value, en = rng.getrandbits(8), rng.random() < 0.6
            ctx.set(dut.i, value)
            ctx.set(dut.en, en)
            await ctx.delay(1e-9)
            assert ctx.get(dut.o) == (past[-cycles] if cycles else value)
            assert ctx.get(dut.kept) == kept
            await ctx.tick()
            if en:
                past.append(value)
                kept, seen = value, seen + 1

    simulate(dut, bench)
    assert seen > 100
