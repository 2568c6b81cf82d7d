"""Sums of a prediction's quality, and the scale that follows, against the golden model."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.golden.quality import quality_sums, rms_exponent
from adagp.rtl.update.quality import QualitySums, sums_latency
from adagp.spec.numerics import operand_max, unpredicted
from adagp.spec.presets import preset
from bench import seeded, simulate

TINY = replace(preset("tiny"), variant="max")
CONFIGS = {"tiny": TINY, "four lanes": replace(TINY, update_lanes=4, port_width=128)}
LAYERS = 40


def values(rng, width, count):
    """Operands of all sizes, some at their limits."""
    limit = operand_max(width)
    some = np.array([rng.randint(-limit, limit) >> rng.randrange(width) for _ in range(count)])
    return np.where([rng.random() < 0.1 for _ in range(count)], rng.choice((limit, -limit, 1, -1)), some)


@pytest.mark.parametrize("name", CONFIGS)
def test_sums(name):
    """Layer after layer, with gaps, with lanes that hold nothing and with errors that say there is no prediction."""
    rng, config = seeded(7), CONFIGS[name]
    dut = QualitySums(config)
    lanes, none = config.update_lanes, unpredicted(config.operand_width)
    seen = []

    async def layer(ctx, e, t, exponent):
        ctx.set(dut.clear, 1)
        await ctx.tick()
        ctx.set(dut.clear, 0)
        ctx.set(dut.exponent, exponent)
        at = 0
        while at < len(e):
            mask = rng.getrandbits(lanes)
            taken = min(len(e) - at, mask.bit_count())
            places = [lane for lane in range(lanes) if mask >> lane & 1][:taken]
            ctx.set(dut.mask, sum(1 << lane for lane in places))
            for port, of_layer in ((dut.e, e), (dut.t, t)):
                shown = values(rng, config.operand_width, lanes)
                shown[places] = of_layer[at : at + taken]
                ctx.set(port, shown.tolist())
            at += taken
            await ctx.tick()
        ctx.set(dut.mask, 0)
        await ctx.tick().repeat(sums_latency(config))
        expected = quality_sums(e, t, config.operand_width)
        assert {field: ctx.get(dut.sums[field]) for field in vars(expected)} == vars(expected)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.result.nonzero) == (expected.tt > 0)
        if expected.tt:
            assert ctx.get(dut.result.top) == rms_exponent(expected, exponent)
        seen.append(expected)

    async def bench(ctx):
        for _ in range(LAYERS):
            count = rng.choice((0, 1, 3, 60))
            e, t = (values(rng, config.operand_width, count) for _ in "et")
            e[[rng.random() < 0.1 for _ in range(count)]] = none
            await layer(ctx, e, t, rng.randint(-100, 100))

    simulate(dut, bench)
    assert len(seen) == LAYERS and sum(sums.count > 0 and sums.et < 0 for sums in seen) > 3
    assert any(sums.count == 0 for sums in seen)
