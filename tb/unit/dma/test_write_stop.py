"""WriteStop: which writes of two commands under way a stop lets through."""

import pytest
from adagp.rtl.dma.write_stop import WriteStop
from bench import seeded, simulate

NO_STOP = {"stopping": 0, "index": 0}
GO, HOLD = 0, 1


@pytest.mark.parametrize("begun, failing, hold, writing", [
    (False, 4, HOLD, False), (False, 5, HOLD, False), (False, 6, GO, False),
    (True, 4, GO, True), (True, 5, HOLD, False), (True, 6, GO, True),
])  # fmt: skip
def test_stop(begun, failing, hold, writing):
    """The fate of command 5."""
    dut = WriteStop()

    async def bench(ctx):
        ctx.set(dut.command, 5)
        ctx.set(dut.begun, begun)
        await ctx.tick()
        ctx.set(dut.begun, 0)
        ctx.set(dut.stop, {"stopping": 1, "index": failing})
        assert not ctx.get(dut.hold)
        await ctx.tick()
        assert ctx.get(dut.hold) == hold
        assert ctx.get(dut.writing) == writing
        ctx.set(dut.lost, {"valid": 1, "index": 6})
        await ctx.tick()
        assert ctx.get(dut.hold) == hold and ctx.get(dut.writing) == writing
        ctx.set(dut.lost, {"valid": 1, "index": 5 - begun * (failing == 4)})
        assert not ctx.get(dut.writing)
        await ctx.tick()
        assert ctx.get(dut.hold)

    simulate(dut, bench)


def test_sequence():
    """Commands that begin and complete at random, against a model; one may begin before the one before it ends."""
    rng = seeded(31)
    dut = WriteStop()
    seen = {"hold": 0, "writing": 0, "overlap": 0}

    async def bench(ctx):
        started, ended = -1, -1  # numbers of the latest command that has begun, and that is complete
        command, hold = 0, False
        stop = NO_STOP
        for _ in range(4000):
            begins = rng.random() < 0.3 and not hold and ended < command
            oldest = ended + 1
            completes = oldest <= started and rng.random() < 0.2 and not (begins and oldest == command)
            ctx.set(dut.stop, stop)
            ctx.set(dut.command, command)
            ctx.set(dut.begun, begins)
            ctx.set(dut.complete, completes)
            ctx.set(dut.completed, oldest)
            writing = started > ended and started != stop["index"]
            assert ctx.get(dut.writing) == writing
            seen["writing"] += writing and stop["stopping"]
            goes_on = started == command and ended < command and command != stop["index"]
            hold = bool(stop["stopping"] and command >= stop["index"] and not goes_on)
            await ctx.tick()
            assert ctx.get(dut.hold) == hold
            seen["hold"] += hold
            started = command if begins else started
            ended += completes
            seen["overlap"] += started - ended == 2
            if started == command and rng.random() < 0.2 and started - ended < 2:
                command += 1
            if rng.random() < 0.1:
                stop = {"stopping": 1, "index": max(0, command + rng.randint(-2, 2))}
            elif rng.random() < 0.1:
                stop = NO_STOP

    simulate(dut, bench)
    assert all(number > 50 for number in seen.values()), seen
