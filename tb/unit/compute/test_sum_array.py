"""The output-stationary array: blocks of sums against numpy, with pauses, one block's rows leaving during the next."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.rtl.compute.sum_array import SumArray
from adagp.spec.presets import PRESETS
from bench import seeded, simulate

TINY = PRESETS["tiny"]
LENGTHS = (5, 9, 5, 17)


@pytest.mark.parametrize("rows, cols", [(4, 4), (5, 2), (3, 6)])
@pytest.mark.parametrize("stall", [0, 0.3])
def test_blocks(rows, cols, stall):
    config = replace(TINY, rows=rows, cols=cols, output_stationary=True)
    dut, rng = SumArray(config), np.random.default_rng(seeded(4).randrange(1 << 30))
    largest = (1 << (config.operand_width - 1)) - 1
    blocks = [rng.integers(-largest, largest, (2, n_k, max(rows, cols)), endpoint=True) for n_k in LENGTHS]
    blocks[1][:] = largest  # the longest sum of all
    expected = [row for a, b in blocks for row in (a[:, :rows].T @ b[:, :cols]).tolist()]
    leaves, seen = [], []  # rows that leave, by cycle

    async def feed(ctx):
        left = 0  # rows of the block before that have yet to leave
        for a, b in blocks:
            for k in range(len(a)):
                last = k + 1 == len(a)
                while (last and left > 1) or rng.random() < stall:
                    ctx.set(dut.add, 0)
                    left = await cycle(ctx, left)
                ctx.set(dut.a, a[k, :rows].tolist())
                ctx.set(dut.b, b[k, :cols].tolist())
                ctx.set(dut.add, 1)
                ctx.set(dut.first, k == 0)
                left = await cycle(ctx, rows + 1 if last else left)
        ctx.set(dut.add, 0)
        for _ in range(rows + dut.latency):
            left = await cycle(ctx, left)

    async def cycle(ctx, left):
        """Say which row leaves, if one does: the first one with its block's last operands."""
        leaves.append(left > 1)
        ctx.set(dut.row, rows + 1 - left if left > 1 else 0)
        await ctx.tick()
        if leaves[-dut.latency : -dut.latency + 1] == [True]:
            seen.append(list(ctx.get(dut.psum)))
        return max(left - 1, 0)

    simulate(dut, feed)
    assert seen == expected
    assert len(expected) == len(LENGTHS) * rows > 0
