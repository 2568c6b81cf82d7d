"""Multicycle against counted cycles: which cycles belong to a start, and what a stage's register begins with."""

import pytest
from adagp.rtl.lib.multicycle import Multicycle
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from bench import seeded, simulate


class Adder(wiring.Component):
    """A stage that adds 1 in each cycle of a value, and the marks of all cycles after a start."""

    def __init__(self, fold):
        self._fold = fold
        super().__init__({"start": In(1), "i": In(8), "o": Out(8), "marks": Out(2 * fold)})

    def elaborate(self, platform):
        m = Module()
        timing = Multicycle(m, self.start, self._fold)
        register, present = timing.register(8, "sum", self.i)
        m.d.sync += register.eq(present + 1)
        m.d.comb += self.o.eq(register)
        for cycles in range(2 * self._fold):
            mark = Signal(name=f"mark{cycles}")
            m.d.comb += [mark.eq(timing.after(cycles)), self.marks[cycles].eq(mark)]
        return m


@pytest.mark.parametrize("fold", [1, 2, 3, 8])
def test_starts_every_fold_cycles(fold):
    rng, dut, seen = seeded(fold), Adder(fold), 0

    async def bench(ctx):
        nonlocal seen
        value = None
        for cycle in range(40 * fold):
            at = cycle % fold
            given = rng.getrandbits(8)
            ctx.set(dut.i, given)
            ctx.set(dut.start, at == 0)
            await ctx.delay(1e-9)
            if value is not None and at == 0:  # all steps of the value before are done
                assert ctx.get(dut.o) == (value + fold) % 256
                seen += 1
            if value is not None:
                assert ctx.get(dut.marks) == sum(1 << n for n in range(2 * fold) if n % fold == at)
            value = given if at == 0 else value
            await ctx.tick()

    simulate(dut, bench)
    assert seen > 30
