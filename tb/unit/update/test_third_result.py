"""ThirdResult: the maximum of ADAM's roots by bit length, and of UPDATE the scale of its quality sums."""

from dataclasses import replace

import numpy as np
from adagp.golden.quality import quality_sums, rms_exponent
from adagp.rtl.lib.maximum import Maximum
from adagp.rtl.update.adam_factors import ROOT_LOW_BITS
from adagp.rtl.update.third_result import ThirdResult
from adagp.spec.numerics import operand_max
from adagp.spec.presets import preset
from bench import seeded, simulate

CONFIG = replace(preset("tiny"), variant="max")


def test_results_of_both_commands():
    rng, dut = seeded(6), ThirdResult(CONFIG)
    lanes, limit, seen = CONFIG.update_lanes, operand_max(CONFIG.operand_width), {"adam": 0, "update": 0, "zero": 0}

    async def bench(ctx):
        for _ in range(60):
            adam = rng.random() < 0.5
            task = {name: rng.randint(-100, 100) for name in ("eg", "ed", "ed_next", "scale")}
            task |= {
                "adam": adam,
                "layer": rng.getrandbits(16),
                "d_id": rng.randrange(CONFIG.n_tensors),
                "scale_id": rng.randrange(CONFIG.n_tensors),
            }
            for name, value in task.items():
                ctx.set(getattr(dut.task, name), value)
            ctx.set(dut.clear, 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            errors, gradients, roots = [], [], [0]
            for _ in range(rng.choice((0, 1, 9))):
                mask = rng.getrandbits(lanes)
                e, g = ([rng.randint(-limit, limit) for _ in range(lanes)] for _ in "eg")
                root = rng.getrandbits(16) >> rng.randrange(17)
                for port, value in ((dut.mask, mask), (dut.e, e), (dut.g, g), (dut.s_magnitude, root)):
                    ctx.set(port, value)
                await ctx.tick()
                taken = [lane for lane in range(lanes) if mask >> lane & 1]
                errors += [e[lane] for lane in taken]
                gradients += [g[lane] for lane in taken]
                roots.append(root)
            ctx.set(dut.mask, 0)
            ctx.set(dut.s_magnitude, 0)
            await ctx.tick().repeat(dut.latency + Maximum.LATENCY)
            sums = quality_sums(np.array(errors, dtype=int), np.array(gradients, dtype=int), CONFIG.operand_width)
            quality = {name: ctx.get(dut.quality[name]) for name in vars(sums)}
            assert quality == vars(sums)
            assert ctx.get(dut.quality.layer) == task["layer"] and ctx.get(dut.quality.e_exponent) == task["ed"]
            assert ctx.get(dut.quality.t_exponent) == task["eg"] - task["scale"]
            most = max(root.bit_length() for root in roots)
            nonzero = most > 0 if adam else sums.tt > 0
            assert ctx.get(dut.result.id) == task["d_id" if adam else "scale_id"]
            assert ctx.get(dut.result.nonzero) == nonzero
            if nonzero:
                top = most + task["ed_next"] - ROOT_LOW_BITS if adam else rms_exponent(sums, task["eg"])
                assert ctx.get(dut.result.top) == top
            seen["zero" if not nonzero else "adam" if adam else "update"] += 1

    simulate(dut, bench)
    assert min(seen.values()) > 5, seen
