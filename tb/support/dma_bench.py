"""Tools of the benches of both DMA engines: configurations, loops, tokens, checks of bursts."""

from dataclasses import replace
from itertools import product

from adagp.spec.presets import preset

__all__ = ["CONFIGS", "LEAST", "check_burst", "loops", "place", "token"]

# Small scratchpads, so that random tiles meet their ends.
CONFIGS = {
    "tiny": replace(preset("tiny"), a_depth=64, b_depth=32, c_depth=32),
    "port128": replace(
        preset("tiny"), variant="efficient", port_width=128, max_burst_beats=4, a_depth=16, b_depth=32, c_depth=32
    ),
    "paper": replace(preset("paper"), a_depth=16, b_depth=16, c_depth=8, max_burst_beats=16),
    "int8": replace(preset("tiny"), operand_width=8, a_depth=32, b_depth=32, c_depth=32, max_burst_beats=1),
}

PAGE = 4096


def loops(d, levels):
    """(DRAM address, scratchpad element) of each operand's segment of descriptor ``d``, in order."""
    for index in product(*(range(d[f"n{level}"]) for level in range(levels))):
        yield (
            d["dram"] + sum(i * d.get(f"d{level}", 0) for level, i in enumerate(index)),
            d["sp"] + sum(i * d.get(f"s{level}", 0) for level, i in enumerate(index)),
        )


def place(rng, d, key, strides, counts, tail, size):
    """Choose ``d[key]`` so that everything the loops reach lies in 0..size - 1; False if nothing does.

    ``strides`` and ``counts`` are the loops', ``tail`` is the reach of a segment's last unit.
    """
    reach = [(count - 1) * stride for count, stride in zip(counts, strides, strict=True)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + tail
    if high - low >= size:
        return False
    d[key] = rng.randint(-low, size - 1 - high)
    return True


def check_burst(config, addr, length):
    """Assert what AXI and the configuration ask of a burst."""
    n_bytes = (length + 1) * config.beat_bytes
    assert addr % config.beat_bytes == 0
    assert length + 1 <= config.max_burst_beats
    assert addr // PAGE == (addr + n_bytes - 1) // PAGE


def token(port, rng, takes, chance=0.1):
    """A bench that hands out tokens at random, no more than ``takes``, and asserts that all are taken."""

    async def bench(ctx):
        given = taken = 0
        while taken < takes:
            if given < takes and rng.random() < chance:
                given += 1
            ctx.set(port.avail, given > taken)
            _, _, take = await ctx.tick().sample(port.take)
            assert given > taken or not take
            taken += take
        ctx.set(port.avail, 1)
        _, _, take = await ctx.tick().sample(port.take)
        assert not take

    return bench


LEAST = {8: -127, 16: -32767}
"""Least mantissa by operand width."""
