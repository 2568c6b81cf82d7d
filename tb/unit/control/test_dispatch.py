"""Dispatch: payloads come in order, each once what it waits for is complete, and no later than it says."""

from itertools import pairwise

import pytest
from adagp.rtl.control.dispatch import SMALL, Dispatch, WaitLayout
from bench import seeded, simulate, source

COUNT = 200


@pytest.mark.parametrize("depth", [SMALL, 4])
@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("waits", [False, True])
def test_random(depth, stall, waits):
    rng, dut = seeded(12), Dispatch(16, depth)
    wanted, items = dict.fromkeys(WaitLayout.members, 0), []
    for _ in range(COUNT):
        if waits:
            wanted[rng.choice(list(wanted))] += 1
        items.append({"wait": dict(wanted), "payload": rng.getrandbits(16)})
    completed, seen, taken_at, entered_at = dict.fromkeys(wanted, 0), [], [], []

    async def complete(ctx):
        while completed != wanted:
            kind = rng.choice([kind for kind in wanted if completed[kind] < wanted[kind]])
            await ctx.tick().repeat(rng.randint(1, 9))
            completed[kind] += 1
            ctx.set(dut.completed, completed)

    async def take(ctx):
        cycle = 0
        while len(seen) < COUNT:
            ready = rng.random() >= stall
            ctx.set(dut.o.ready, ready)
            _, _, valid, payload, enters = await ctx.tick().sample(
                dut.o.valid, dut.o.payload, dut.i.valid & dut.i.ready
            )
            cycle += 1
            if enters:
                entered_at.append(cycle)
            if valid:
                item = items[len(seen)]
                assert payload == item["payload"]
                assert all(completed[kind] >= item["wait"][kind] for kind in wanted), "offered too early"
            if valid and ready:
                seen.append(payload)
                taken_at.append(cycle)

    async def give(ctx):
        await source(ctx, dut.i, items, rng, stall)

    simulate(dut, give, take, *([complete] if waits else []))
    assert len(seen) == COUNT > 0
    assert min(t - e for t, e in zip(taken_at, entered_at, strict=True)) >= dut.LATENCY
    every = 4 if depth == SMALL else 3
    apart = [later - earlier for earlier, later in pairwise(taken_at)]
    assert min(apart) == every
    if not waits and not stall:
        assert taken_at[0] - entered_at[0] == dut.LATENCY and set(apart) == {every}
