"""Exponents against the rule of docs/machine.md in plain Python; the hyper-parameter table."""

import pytest
from adagp.rtl.exponents import Adjust, Exponents
from adagp.rtl.hyper import HYPER_PER_UPDATE, Hyper
from adagp.spec.presets import preset
from bench import seeded, simulate


class Model:
    """Table and shadow as dictionaries."""

    def __init__(self, config):
        self.headroom = 1
        self.bits = config.operand_width - 1
        self.table = {i: [0, 0, 0] for i in range(config.n_tensors)}
        self.shadow = {}

    def event(self, tensor, nonzero, top):
        tops = self.shadow.setdefault(tensor, [])
        if nonzero:
            tops.append(top)

    def adjust(self, how, tensors):
        for tensor in tensors:
            tops = self.shadow.pop(tensor, None)
            if tops is None or how == Adjust.CLEAR:
                continue
            cur, after, has_next = self.table[tensor]
            old = after if has_next else cur
            new = max(tops) + self.headroom - self.bits if tops else old - 8
            new = min(max(new, -128), 127)
            if has_next:
                self.table[tensor] = [after if how == Adjust.COMMIT else cur, new, 1]
            else:
                self.table[tensor] = [new, after, 0]


class Driver:
    """What Control does with the component, and what the model makes of it."""

    def __init__(self, dut, config, rng):
        self.dut, self.config, self.rng, self.model = dut, config, rng, Model(config)
        self.seen = 0

    async def show(self, ctx, tensor):
        ctx.set(self.dut.index, tensor)
        ctx.set(self.dut.show, 1)
        await ctx.tick()
        ctx.set(self.dut.show, 0)
        shown = ctx.get(self.dut.shown)
        return [shown.cur, shown.next, shown.has_next]

    async def write_all(self, ctx):
        for tensor in self.model.table:
            entry = [self.rng.randint(-128, 127), self.rng.randint(-128, 127), self.rng.randint(0, 1)]
            ctx.set(self.dut.index, tensor)
            ctx.set(self.dut.value, dict(zip(("cur", "next", "has_next"), entry, strict=True)))
            ctx.set(self.dut.set, 1)
            await ctx.tick()
            self.model.table[tensor] = entry
        ctx.set(self.dut.set, 0)

    async def events(self, ctx, count):
        """Random events, from both sources at once now and then, on few tensors."""
        dut, rng = self.dut, self.rng
        for _ in range(count):
            for name in ("drain", "update"):
                valid = rng.random() < 0.3
                event = {
                    "id": rng.choice((0, 1, 2, self.config.n_tensors - 1, rng.randrange(self.config.n_tensors))),
                    "nonzero": rng.random() < 0.7, "top": rng.choice((rng.randint(-512, 511), rng.randint(-20, 20))),
                }  # fmt: skip
                ctx.set(getattr(dut, f"{name}_result_valid"), valid)
                ctx.set(getattr(dut, f"{name}_result"), event)
                if valid:
                    self.model.event(event["id"], event["nonzero"], event["top"])
            await ctx.tick()
            if rng.random() < 0.3:
                await self.quiet(ctx)
        await self.quiet(ctx)

    async def quiet(self, ctx):
        ctx.set(self.dut.drain_result_valid, 0)
        ctx.set(self.dut.update_result_valid, 0)
        for _ in range(self.rng.randrange(3)):
            await ctx.tick()

    async def adjust(self, ctx, how):
        dut, rng = self.dut, self.rng
        out, b = rng.sample((0, 1, 2, self.config.n_tensors - 1), 2)
        track_out, track_b = rng.randint(0, 1), rng.randint(0, 1)
        ctx.set(dut.adjust.how, how)
        ctx.set(dut.adjust.out, out)
        ctx.set(dut.adjust.b, b)
        ctx.set(dut.adjust.track_out, track_out)
        ctx.set(dut.adjust.track_b, track_b)
        ctx.set(dut.adjust.start, 1)
        await ctx.tick()
        ctx.set(dut.adjust.start, 0)
        await self.until(ctx, dut.adjust.done)
        tensors = list(self.model.table)
        if how == Adjust.TRIAL:
            tensors = [out] * track_out + [b] * track_b
        self.model.adjust(how, tensors)

    async def until(self, ctx, done):
        """Cycles until ``done``, with the host reading now and then."""
        cycles = stolen = 0
        while True:
            cycles += 1
            stolen += ctx.get(self.dut.show)
            await ctx.tick()
            if ctx.get(done):
                ctx.set(self.dut.show, 0)
                return cycles - stolen
            ctx.set(self.dut.show, self.rng.random() < 0.2)

    async def check(self, ctx):
        for tensor, entry in self.model.table.items():
            if self.rng.random() < 0.3:
                await ctx.tick()
            assert await self.show(ctx, tensor) == entry, tensor
            self.seen += 1


@pytest.mark.parametrize("name", ["tiny", "paper"])
def test_adjusts(name):
    config = preset(name)
    rng = seeded(5)
    dut = Exponents(config)
    driver = Driver(dut, config, rng)
    rounds = [Adjust.COMMIT, Adjust.TRIAL, Adjust.TRIAL, Adjust.COMMIT, Adjust.COMMIT, Adjust.CLEAR, Adjust.COMMIT]

    async def bench(ctx):
        await driver.write_all(ctx)
        for how in rounds:
            await driver.events(ctx, rng.randrange(60))
            await driver.adjust(ctx, how)
            await driver.check(ctx)

    simulate(dut, bench)
    assert driver.seen == len(rounds) * config.n_tensors > 0


def test_lookup():
    config = preset("tiny")
    rng = seeded(6)
    dut = Exponents(config)
    driver = Driver(dut, config, rng)
    seen = 0

    async def bench(ctx):
        nonlocal seen
        await driver.write_all(ctx)
        for _ in range(50):
            ids = [rng.randrange(config.n_tensors) for _ in range(4)]
            ctx.set(dut.lookup.ids, dict(zip(("a", "b", "c", "out"), ids, strict=True)))
            ctx.set(dut.lookup.start, 1)
            await ctx.tick()
            ctx.set(dut.lookup.start, 0)
            cycles = 1 + await driver.until(ctx, dut.lookup.done)
            assert cycles <= Exponents.LOOKUP_LATENCY
            found = ctx.get(dut.lookup.found)
            assert [[e.cur, e.next, e.has_next] for e in found] == [driver.model.table[i] for i in ids]
            seen += 1

    simulate(dut, bench)
    assert seen == 50


def test_hyper():
    config = preset("tiny")
    rng = seeded(7)
    dut = Hyper(config)
    values = [(rng.randrange(1 << 16), rng.randint(-128, 127)) for _ in range(config.n_hyper)]
    seen = 0

    async def bench(ctx):
        nonlocal seen
        for index, (mantissa, exponent) in enumerate(values):
            ctx.set(dut.index, index)
            ctx.set(dut.value, {"mantissa": mantissa, "exponent": exponent})
            ctx.set(dut.set, 1)
            await ctx.tick()
        ctx.set(dut.set, 0)
        for first in range(config.n_hyper - HYPER_PER_UPDATE + 1):
            ctx.set(dut.lookup.first, first)
            ctx.set(dut.lookup.start, 1)
            await ctx.tick()
            ctx.set(dut.lookup.start, 0)
            for _ in range(Hyper.LOOKUP_LATENCY - 1):
                assert not ctx.get(dut.lookup.done)
                await ctx.tick()
            assert ctx.get(dut.lookup.done)
            found = [(e.mantissa, e.exponent) for e in ctx.get(dut.lookup.found)]
            assert found == values[first : first + HYPER_PER_UPDATE]
            ctx.set(dut.show, 1)
            await ctx.tick()
            ctx.set(dut.show, 0)
            assert ctx.get(dut.shown.mantissa) == values[-1][0]
            seen += 1

    simulate(dut, bench)
    assert seen == config.n_hyper - HYPER_PER_UPDATE + 1 > 0
