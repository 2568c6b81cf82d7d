"""The sequencer's arithmetic against Python integers, at the edges and at random."""

import pytest
from adagp.rtl.sequencer.alu import SequencerAlu
from adagp.spec.microcode.isa import DIV_CYCLES, PAIR_CYCLES, PAIRS, Op
from adagp.spec.presets import PRESETS, preset
from bench import seeded, simulate

EDGES = [0, 1, -1, 2, 3, 7, 2**17 - 1, 2**17, -(2**17), -(2**17) - 1, 2**30, 2**30 - 1, -(2**30), 2**31 - 1, -(2**31)]


def wrap(x):
    return (x + 2**31) % 2**32 - 2**31


def expected(op, a, b, distance, banks):
    """(result or None, taken, overflow, cycles)."""
    results = {
        Op.ADD: wrap(a + b), Op.SUB: wrap(a - b), Op.MIN: min(a, b), Op.MAX: max(a, b), Op.SHIFT: a >> distance,
        Op.ALIGN: wrap(next(x for x in range(a, a + banks) if (x - b) % banks == 0)), Op.MUL: wrap(a * b),
    }  # fmt: skip
    taken = {Op.BEQ: a == b, Op.BNE: a != b, Op.BLT: a < b, Op.BGE: a >= b}.get(op, False)
    overflow = op == Op.MUL and not (-(2**17) <= b < 2**17 and -(2**30) <= a * b < 2**30)
    result = a // b if op == Op.DIV else None if overflow else results.get(op)
    cycles = {**dict.fromkeys(PAIRS, PAIR_CYCLES), Op.DIV: DIV_CYCLES}.get(op, 1)
    return result, taken, overflow, cycles


@pytest.mark.parametrize("name", PRESETS)
def test_operations(name):
    rng = seeded(11)
    config = preset(name)
    dut = SequencerAlu(config, [2, 5])
    cases = []
    for op in (op for op in Op if op < Op.PUSH and op != Op.LOAD):
        pairs = [(rng.choice(EDGES), rng.choice(EDGES)) for _ in range(40)]
        pairs += [(rng.getrandbits(rng.randint(1, 31)), rng.getrandbits(rng.randint(1, 17))) for _ in range(30)]
        if op == Op.DIV:
            pairs = [(abs(a) % 2**31, abs(b) % 2**31 or 1) for a, b in pairs[20:50]]
        cases += [(op, a, b, rng.choice([2, 5])) for a, b in pairs]
    rng.shuffle(cases)
    seen = 0

    async def bench(ctx):
        nonlocal seen
        for op, a, b, distance in cases:
            for port, value in (("op", op), ("a", a), ("b", b), ("distance", distance)):
                ctx.set(getattr(dut, port), value)
            result, taken, overflow, cycles = expected(op, a, b, distance, config.banks)
            for cycle in range(1, cycles):
                ctx.set(dut.en, 1)
                assert ctx.get(dut.nearly) == (cycle == cycles - 1), (op, cycle)
                await ctx.tick()
            ctx.set(dut.en, 0)
            assert ctx.get(dut.taken) == taken, (op, a, b)
            assert result is None or ctx.get(dut.result) == result, (op, a, b)
            seen += 1
            await ctx.tick()
            assert op != Op.MUL or ctx.get(dut.overflow) == overflow, (op, a, b)
            if rng.random() < 0.3:
                await ctx.tick()

    simulate(dut, bench, limit=40 * len(cases))
    assert seen == len(cases) > 0
