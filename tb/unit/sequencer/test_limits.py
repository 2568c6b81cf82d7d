"""The sequencer at the limits of what the hardware counts and sums."""

import pytest
from adagp.rtl.lib.interfaces import TaskLayout
from adagp.rtl.sequencer.sequencer import Sequencer
from adagp.spec.commands import FIELDS
from adagp.spec.errors import ErrorCode
from adagp.spec.microcode.descriptors import ENGINES
from adagp.spec.microcode.machine import task
from amaranth.hdl import ResetInserter, Signal
from bench import simulate
from limits import CASES, CONFIGS


def payload(fields):
    t = task(fields)
    names = [name for name in TaskLayout.members if name != "command"]
    return {"command": {field.name: getattr(t, field.name) for field in FIELDS}} | {n: getattr(t, n) for n in names}


@pytest.mark.parametrize("name", CONFIGS)
def test_limits(name):
    """Each task is refused with its code before anything is issued, or something is issued."""
    cases = [case[1:] for case in CASES if case[0] == name]
    dut, reset = Sequencer(CONFIGS[name]), Signal()
    seen = 0

    async def bench(ctx):
        nonlocal seen
        for fields, _, code in cases:
            ctx.set(dut.i.payload, payload(fields))
            ctx.set(dut.i.valid, 1)
            for _ in range(3000):
                await ctx.tick()
                if ctx.get(dut.error_valid) or any(ctx.get(getattr(dut, engine).valid) for engine in ENGINES):
                    break
            assert ctx.get(dut.error_valid) == (code != ErrorCode.NONE), fields
            assert code == ErrorCode.NONE or ctx.get(dut.error_code) == code, fields
            ctx.set(dut.i.valid, 0)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            seen += 1

    simulate(ResetInserter(reset)(dut), bench, limit=3000 * len(cases))
    assert seen == len(cases) > 0
