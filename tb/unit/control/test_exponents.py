"""Exponents against the rule of docs/machine.md in plain Python; the hyper-parameter table."""

from dataclasses import replace
from math import floor

import pytest
from adagp.golden import exponents as golden
from adagp.rtl.control.exponents import Adjust, Exponents
from adagp.rtl.control.hyper_table import HyperTable
from adagp.rtl.lib.interfaces import HYPER_PER_UPDATE
from adagp.spec.presets import preset
from bench import seeded, simulate

SCALE = 2


def smoothed(cur, fraction, top):
    """A scale after a batch whose own was ``top``: an eighth of the way there, in units of 1/256."""
    value = floor(256 * cur + fraction + (256 * top - 256 * cur - fraction) / 8)
    return min(max(value // 256, -128), 127), value % 256


class Model:
    """Table and shadow as dictionaries; of a scale the third number is 2, the second its fraction."""

    def __init__(self, config):
        self.headroom = 1
        self.bits = config.operand_width - 1
        self.table = {i: [0, 0, 0] for i in range(config.n_tensors)}
        self.shadow = {}
        self.scales = 0

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
            if has_next == SCALE:
                if tops:
                    own = min(max(max(tops), -128), 127), 0
                    self.table[tensor] = [*(smoothed(cur, after, max(tops)) if how == Adjust.COMMIT else own), SCALE]
                    self.scales += 1
                continue
            old = after if has_next else cur
            new = max(tops) + self.headroom - self.bits if tops else old - 8
            new = min(max(new, -128), 127)
            if has_next:
                self.table[tensor] = [after if how == Adjust.COMMIT else cur, new, 1]
            else:
                self.table[tensor] = [new, after, 0]


class Driver:
    """Control's accesses to the component, and the model's answers."""

    def __init__(self, dut, config, rng):
        self.dut, self.config, self.rng, self.model = dut, config, rng, Model(config)
        self.seen = 0

    async def show(self, ctx, tensor):
        ctx.set(self.dut.index, tensor)
        ctx.set(self.dut.show, 1)
        await ctx.tick()
        ctx.set(self.dut.show, 0)
        await ctx.tick()
        shown = ctx.get(self.dut.shown)
        if self.config.predicts and shown.is_scale:
            return [shown.cur, shown.next % 256, SCALE]
        return [shown.cur, shown.next, shown.has_next]

    async def write_all(self, ctx):
        for tensor in self.model.table:
            entry = [self.rng.randint(-128, 127), self.rng.randint(-128, 127), self.rng.randint(0, 1)]
            value = dict(zip(("cur", "next", "has_next"), entry, strict=True))
            if self.config.predicts:
                scale = self.rng.random() < 0.4
                value["is_scale"] = int(scale)
                entry = [entry[0], entry[1] % 256, SCALE] if scale else entry
            ctx.set(self.dut.index, tensor)
            ctx.set(self.dut.value, value)
            ctx.set(self.dut.set, 1)
            await ctx.tick()
            self.model.table[tensor] = entry
        ctx.set(self.dut.set, 0)

    async def events(self, ctx, count):
        """Random events, from both sources at once now and then, on few tensors."""
        dut, rng = self.dut, self.rng
        for _ in range(count):
            for name in ("drain", "update"):
                valid = rng.random() < 0.1
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
        named = ("out", "b", "d") if self.config.predicts else ("out", "b")
        ids = dict(zip(named, rng.sample((0, 1, 2, self.config.n_tensors - 1), len(named)), strict=True))
        tracked = {name: rng.randint(0, 1) for name in named}
        ctx.set(dut.adjust.how, how)
        for name in named:
            ctx.set(getattr(dut.adjust, name), ids[name])
            ctx.set(getattr(dut.adjust, f"track_{name}"), tracked[name])
        ctx.set(dut.adjust.start, 1)
        await ctx.tick()
        ctx.set(dut.adjust.start, 0)
        await self.until(ctx, dut.adjust.done)
        tensors = list(self.model.table)
        if how == Adjust.TRIAL:
            tensors = [ids[name] for name in named if tracked[name]]
        elif how == Adjust.COMMIT:
            del tensors[len(tensors) - ids["out"] :]
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


@pytest.mark.parametrize("name, variant", [
    ("tiny", "baseline"), ("tiny", "low"),
    pytest.param("paper", "baseline", marks=pytest.mark.slow),  # a longer table
])  # fmt: skip
def test_adjusts(name, variant):
    config = replace(preset(name), variant=variant)
    rng = seeded(5)
    dut = Exponents(config)
    driver = Driver(dut, config, rng)
    rounds = [Adjust.COMMIT, Adjust.TRIAL, Adjust.TRIAL, Adjust.COMMIT, Adjust.COMMIT, Adjust.CLEAR, Adjust.COMMIT]

    async def bench(ctx):
        await driver.write_all(ctx)
        for how in rounds:
            await driver.events(ctx, rng.randrange(180))
            await driver.adjust(ctx, how)
            await driver.check(ctx)

    simulate(dut, bench)
    assert driver.seen == len(rounds) * config.n_tensors > 0
    assert driver.model.scales > 8 or not config.predicts


@pytest.mark.parametrize("top", [-300, -128, 0, 5, 127, 160, 511])
def test_a_scale_approaches_where_gradients_are(top):
    """From far away, by an eighth a batch, within what exponents can be; the first trial goes there at once."""
    config = replace(preset("tiny"), variant="low")
    dut = Exponents(config)
    driver = Driver(dut, config, seeded(8))
    tensor, last = 3, (-100, 77)
    seen = 0

    async def bench(ctx):
        nonlocal last, seen
        ctx.set(dut.index, tensor)
        ctx.set(dut.value, {"cur": last[0], "next": last[1], "has_next": 0, "is_scale": 1})
        ctx.set(dut.set, 1)
        await ctx.tick()
        ctx.set(dut.set, 0)
        ctx.set(dut.adjust.d, tensor)
        ctx.set(dut.adjust.track_d, 1)
        for how in (*[Adjust.COMMIT] * 12, Adjust.TRIAL, Adjust.COMMIT):
            ctx.set(dut.update_result, {"id": tensor, "nonzero": 1, "top": top})
            ctx.set(dut.update_result_valid, 1)
            await ctx.tick()
            ctx.set(dut.update_result_valid, 0)
            ctx.set(dut.adjust.how, how)
            ctx.set(dut.adjust.start, 1)
            await ctx.tick()
            ctx.set(dut.adjust.start, 0)
            await driver.until(ctx, dut.adjust.done)
            await ctx.tick()
            assert smoothed(*last, top) == golden.smoothed(*last, top)
            last = smoothed(*last, top) if how == Adjust.COMMIT else (min(max(top, -128), 127), 0)
            assert await driver.show(ctx, tensor) == [*last, SCALE]
            seen += 1

    simulate(dut, bench)
    assert seen == 14


@pytest.mark.parametrize("variant", ["baseline", "low"])
def test_lookup(variant):
    config = replace(preset("tiny"), variant=variant)
    names = ("a", "b", "c", "out", *(["d", "scale"] if variant == "low" else []))
    rng = seeded(6)
    dut = Exponents(config)
    driver = Driver(dut, config, rng)
    seen = 0

    async def bench(ctx):
        nonlocal seen
        await driver.write_all(ctx)
        for _ in range(50):
            ids = [rng.randrange(config.n_tensors) for _ in names]
            ctx.set(dut.lookup.ids, dict(zip(names, ids, strict=True)))
            ctx.set(dut.lookup.start, 1)
            await ctx.tick()
            ctx.set(dut.lookup.start, 0)
            cycles = 1 + await driver.until(ctx, dut.lookup.done)
            assert cycles <= dut.lookup_latency
            found = ctx.get(dut.lookup.found)
            scales = [config.predicts and e.is_scale for e in found]
            entries = [
                [e.cur, e.next & 0xFF, SCALE] if scale else [e.cur, e.next, e.has_next]
                for e, scale in zip(found, scales, strict=True)
            ]
            assert entries == [driver.model.table[i] for i in ids]
            seen += 1

    simulate(dut, bench)
    assert seen == 50


@pytest.mark.parametrize(("variant", "count"), [("baseline", HYPER_PER_UPDATE), ("low", 6)])
def test_hyper(variant, count):
    config = replace(preset("tiny"), variant=variant)
    rng = seeded(7)
    dut = HyperTable(config)
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
        for first in range(config.n_hyper - count + 1):
            ctx.set(dut.lookup.first, first)
            ctx.set(dut.lookup.start, 1)
            await ctx.tick()
            ctx.set(dut.lookup.start, 0)
            for _ in range(dut.lookup_latency - 1):
                assert not ctx.get(dut.lookup.done)
                await ctx.tick()
            assert ctx.get(dut.lookup.done)
            found = [(e.mantissa, e.exponent) for e in ctx.get(dut.lookup.found)]
            assert found == values[first : first + count]
            ctx.set(dut.show, 1)
            await ctx.tick()
            ctx.set(dut.show, 0)
            await ctx.tick()
            assert ctx.get(dut.shown.mantissa) == values[-1][0]
            seen += 1

    simulate(dut, bench)
    assert seen == config.n_hyper - count + 1 > 0
