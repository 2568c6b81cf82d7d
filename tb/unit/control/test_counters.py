"""Counters against sums in plain Python."""

from collections import deque
from dataclasses import replace

import pytest
from adagp.rtl.control.counters import FLUSH_CYCLES, Counters, counts_layout
from adagp.spec.presets import preset
from adagp.spec.registers import COUNTER_SLOTS, COUNTERS, N_PHASES, register
from bench import seeded, simulate

NAMES = [name for name, _ in COUNTERS]


@pytest.mark.parametrize(("name", "variant"), [("tiny", "baseline"), ("paper", "efficient")])
def test_counts(name, variant):
    config = replace(preset(name), variant=variant)
    rng = seeded(11)
    dut = Counters(config)
    most = {n: (1 << len(dut.counts[n])) - 1 for n in NAMES}
    assert most["macs"] >= config.n_pes and most["read_bytes"] >= config.beat_bytes
    assert most["predictor_bytes"] >= 2 * config.beat_bytes * config.predictor_on_chip  # a beat read, a beat written
    assert set(counts_layout(config).members) == set(NAMES)
    totals = {}
    live_checks = [0]
    seen = 0

    async def count(ctx, phase, cycles, level):
        """Random increments, at ``level`` of what there may be, while the host reads at random."""
        ctx.set(dut.phase, phase)
        show = 0
        due = deque([None] * dut.SHOW_LATENCY)  # totals to be shown, or None
        for _ in range(cycles):
            counts = {n: most[n] if level == 1 else int(most[n] * level * rng.random() + rng.random()) for n in NAMES}
            show = rng.random() < 0.5 and not show
            ctx.set(dut.counts, counts)
            ctx.set(dut.show, show)
            await ctx.tick()
            index = register("COUNTER").unpack(ctx.get(dut.index))
            known = show and index["phase"] == phase and index["place"] < len(NAMES)
            # exact in the middle of everything: all that came before this cycle
            due.append(totals.get((phase, NAMES[index["place"]]), 0) if known else None)
            due.popleft()
            if due[0] is not None:
                assert ctx.get(dut.shown) == due[0]
                live_checks[0] += 1
            shown, place = rng.choice((phase, phase, rng.randrange(N_PHASES))), rng.randrange(COUNTER_SLOTS)
            ctx.set(dut.index, register("COUNTER").pack(phase=shown, place=place))
            for n in NAMES:
                totals[phase, n] = totals.get((phase, n), 0) + counts[n]
        await flush(ctx)

    async def flush(ctx):
        ctx.set(dut.counts, dict.fromkeys(NAMES, 0))
        for i in range(FLUSH_CYCLES):
            ctx.set(dut.show, i % 2)
            await ctx.tick()
        ctx.set(dut.show, 0)

    async def check(ctx):
        nonlocal seen
        for phase in range(N_PHASES):
            for place, n in enumerate(NAMES):
                ctx.set(dut.index, register("COUNTER").pack(phase=phase, place=place))
                ctx.set(dut.show, 1)
                await ctx.tick()
                ctx.set(dut.show, 0)
                await ctx.tick().repeat(dut.SHOW_LATENCY - 1)
                assert ctx.get(dut.shown) == totals.get((phase, n), 0), (phase, n)
                seen += 1

    async def clear(ctx):
        ctx.set(dut.clear, 1)
        await ctx.tick()
        ctx.set(dut.clear, 0)
        totals.clear()

    async def bench(ctx):
        for phase, level in ((2, 1), (0, 0.5), (3, 0.9), (2, 0.1)):
            await count(ctx, phase, rng.randrange(100, 200), level)
        await check(ctx)
        await clear(ctx)
        await check(ctx)
        for phase in (2, 1):
            await count(ctx, phase, 150, 1)
        await check(ctx)
        ctx.set(dut.counts, most)  # cleared in full flight: what comes after counts, and nothing before
        for _ in range(rng.randrange(20, 40)):
            await ctx.tick()
        await clear(ctx)
        await count(ctx, 1, 50, 1)
        await check(ctx)

    simulate(dut, bench)
    assert live_checks[0] > 100
    assert seen == 4 * 4 * len(NAMES) > 0
