"""The loops of DRAIN descriptors against Python's, with an enable that comes and goes."""

import pytest
from adagp.rtl.drain.walk import DrainWalk
from adagp.spec.microcode.descriptors import DRAIN
from adagp.spec.presets import preset
from bench import seeded, simulate

COUNT = 60
FIELDS = ("address", "plain", "tail", "last_out", "last_in", "row_end", "last")


def random_walk(rng, size):
    """A descriptor whose addresses lie below ``size``, and whose other fields may be anything."""
    d = {bits.name: rng.getrandbits(bits.width - bits.signed) for bits in DRAIN}
    n_out, n_in = rng.randint(1, 6), rng.randint(1, 6)
    d.update(n_out=n_out, n_in=n_in, s_out=rng.randrange(size // 20), s_in=rng.randrange(size // 20))
    d.update(idx=rng.choice((0, rng.randrange(1, size // 4))))
    return d


def steps(d):
    """The descriptor's vectors, in order."""
    for o in range(d["n_out"]):
        for i in range(d["n_in"]):
            last_out, last_in = o == d["n_out"] - 1, i == d["n_in"] - 1
            for plain in range(2 if d["idx"] else 1):
                row_end = last_in and (plain or not d["idx"])
                yield {
                    "address": o * d["s_out"] + i * d["s_in"] + plain * d["idx"], "plain": plain,
                    "tail": last_in if d["last_inner"] else last_out, "last_out": last_out, "last_in": last_in,
                    "row_end": row_end, "last": row_end and last_out,
                }  # fmt: skip


@pytest.mark.parametrize("name", ["tiny", "paper"])
def test_random_walks(name):
    rng = seeded(31)
    config = preset(name)
    dut = DrainWalk(config)
    walks = [random_walk(rng, config.c_elements) for _ in range(COUNT)]
    seen = 0

    async def bench(ctx):
        nonlocal seen
        for d in walks:
            ctx.set(dut.d, d)
            ctx.set(dut.start, 1)
            ctx.set(dut.en, rng.randrange(2))
            await ctx.tick()
            ctx.set(dut.start, 0)
            for step in steps(d):
                ctx.set(dut.en, 0)
                while rng.random() < 0.3:
                    assert ctx.get(dut.step.valid)
                    await ctx.tick()
                ctx.set(dut.en, 1)
                assert ctx.get(dut.step.valid)
                assert {field: ctx.get(dut.step[field]) for field in FIELDS} == step
                seen += 1
                await ctx.tick()
            while rng.random() < 0.7:
                ctx.set(dut.en, rng.randrange(2))
                assert not ctx.get(dut.step.valid)
                await ctx.tick()

    simulate(dut, bench)
    assert seen == sum(d["n_out"] * d["n_in"] * (2 if d["idx"] else 1) for d in walks) > 0
