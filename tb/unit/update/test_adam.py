"""ADAM's way through its lane: groups apart and together again, against the golden model; resets."""

import numpy as np
import pytest
from adagp.golden.adam import AdamExponents, adam
from adagp.golden.update import Hyper
from adagp.rtl.update.adam import UpdateAdam
from adagp.rtl.update.adam_lane import AdamLane
from amaranth import ResetInserter, Signal
from bench import seeded, simulate
from predicted_bench import PREDICTED

TASK = {
    "eg": -6, "ew": -9, "ew_next": -9, "ev": -6, "ev_next": -5, "ed": -6, "ed_next": -6,
    "ml": 0x8000, "xl": -24, "mm": 0xE666, "xm": -16, "md": 0x199A, "xd": -16,
    "more": [{"mantissa": 0xFFBE, "exponent": -16}, {"mantissa": 66, "exponent": -16}, {"mantissa": 9}],
}  # fmt: skip
RATE = Hyper(40000, -22)


class Weights:
    """Random weights in groups; what becomes of them."""

    def __init__(self, config, rng, count):
        self.lanes, self.count = config.update_lanes, count
        most = {"g": 0x7FFF, "hi": 0x7FFF, "lo": 0x7FFF, "v": 2**31 - 1}
        self.old = {name: [rng.randint(-limit, limit) for _ in range(count)] for name, limit in most.items()}
        self.old["s"] = [rng.getrandbits(44) for _ in range(count)]
        exps = AdamExponents(*(TASK[name] for name in ("eg", "ew", "ew_next", "ev", "ev_next", "ed", "ed_next")))
        beta2, rest2, epsilon = TASK["more"]
        new = adam(
            *(np.array(self.old[name]) for name in ("g", "hi", "lo", "v", "s")), exps, RATE,
            (Hyper(TASK["mm"], -16), Hyper(beta2["mantissa"], -16)),
            (Hyper(TASK["md"], -16), Hyper(rest2["mantissa"], -16)), epsilon["mantissa"], 16,
        )  # fmt: skip
        self.new = list(zip(new.hi.tolist(), new.lo.tolist(), new.m.tolist(), strict=True))
        self.seconds = new.s.tolist()

    def groups(self):
        for at in range(0, self.count, self.lanes):
            size = min(self.lanes, self.count - at)
            last = at + size == self.count
            lanes = {name: (self.old[name][at : at + size] + [0] * self.lanes)[: self.lanes] for name in self.old}
            del lanes["s"]
            yield size, {**lanes, "mask": (1 << size) - 1, "last": last, "final": last}


@pytest.mark.parametrize("name", ["tiny", "two lanes", "four lanes"])
def test_groups_and_reset(name):
    """A reset while weights are in the lane: nothing of them comes out, whatever follows at once."""
    config = PREDICTED[name]
    rng = seeded(9)
    reset = Signal()
    dut = UpdateAdam(config)
    before, after = Weights(config, rng, 31), Weights(config, rng, 45)
    given = {"seconds": [], "lasts": [], "new": [], "ends": []}
    groups = []  # whether one was taken, for each weight

    async def feed(ctx, weights):
        seconds = iter(weights.old["s"])
        for size, group in weights.groups():
            ctx.set(dut.groups.payload, group)
            for _ in range(size):
                ctx.set(dut.s.payload, next(seconds))
                ctx.set(dut.groups.valid, first := rng.randint(0, 1))
                ctx.set(dut.s.valid, 1 - first)
                while rng.random() < 0.8:
                    assert not ctx.get(dut.s.ready | dut.groups.ready)
                    await ctx.tick()
                ctx.set(dut.groups.valid, 1)
                ctx.set(dut.s.valid, 1)
                while not ctx.get(dut.s.ready):
                    assert not ctx.get(dut.groups.ready)
                    await ctx.tick()
                groups.append(ctx.get(dut.groups.ready))
                await ctx.tick()
                ctx.set(dut.groups.valid, 0)
                ctx.set(dut.s.valid, 0)

    async def bench(ctx):
        ctx.set(dut.task, TASK)
        ctx.set(dut.rate, {"mantissa": RATE.mantissa, "exponent": RATE.exponent})
        await ctx.tick().repeat(4)
        await feed(ctx, before)
        ctx.set(reset, 1)
        await ctx.tick().repeat(2)
        assert 0 < len(given["new"]) < len(given["seconds"]) < before.count  # the rest is under way
        for column in (*given.values(), groups):
            column.clear()
        ctx.set(reset, 0)
        await feed(ctx, after)
        await ctx.tick().repeat(AdamLane.LATENCY)

    async def watch(ctx):
        signals = (dut.valid, dut.o, dut.s_valid, dut.o_s, dut.s_last)
        async for _, _, valid, group, s_valid, second, last in ctx.tick().sample(*signals):
            if s_valid:
                given["seconds"].append(second)
                given["lasts"].append(last)
            if valid:
                assert group.last == group.final
                given["new"] += zip(group.hi, group.lo, group.v, strict=True)
                given["ends"].append(group.last)

    simulate(ResetInserter(reset)(dut), bench, background=(watch,))
    assert given["seconds"] == after.seconds
    assert given["lasts"] == [0] * (after.count - 1) + [1]
    assert groups == [n % config.update_lanes == 0 or n == after.count for n in range(1, after.count + 1)]
    assert given["new"][: after.count] == after.new
    assert len(given["new"]) - after.count < config.update_lanes
    assert given["ends"] == [0] * (-(-after.count // config.update_lanes) - 1) + [1]
