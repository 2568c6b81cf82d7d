"""The supervisor with arbiters that begin bursts as late as they may."""

from adagp.rtl.control.supervisor import Supervisor
from adagp.spec.registers import Control
from bench import seeded, simulate


def test_nothing_is_reset_while_a_burst_is_under_way():
    """CLEAR and errors at any time; bursts begin until the arbiters know of halt, and idle is told a cycle late."""
    rng = seeded(71)
    dut = Supervisor(2, reset_cycles=4)
    seen = {"reset": 0, "stopped": 0, "late": 0}

    async def arbiters(ctx):
        due, running, known, told, was_stopped, was_reset = 0, False, 1, 1, False, True
        while True:
            halt, reset = ctx.get(dut.halt), ctx.get(dut.reset)
            stopped = bool(halt and not ctx.get(dut.busy))
            assert not (due and (reset or stopped)), "a burst is under way"
            seen["reset"] += bool(reset and not was_reset)
            seen["stopped"] += stopped and not was_stopped
            was_stopped, was_reset = stopped, bool(reset)
            running = (running or ctx.get(dut.start)) and not reset
            ctx.set(dut.idle, told)
            told = due == 0
            due = max(due - 1, 0)
            if running and not known and rng.random() < 0.3:
                seen["late"] += halt
                due = rng.randrange(1, 12)
            known = halt
            await ctx.tick()

    async def command(ctx, bit):
        ctx.set(dut.command, bit)
        await ctx.tick()
        ctx.set(dut.command, 0)

    async def host(ctx):
        ctx.set(dut.quiet, 1)
        for _ in range(300):
            await ctx.tick().repeat(rng.randrange(1, 30))
            await command(ctx, Control.START)
            await ctx.tick().repeat(rng.randrange(1, 30))
            if rng.random() < 0.5:
                ctx.set(dut.errors[0], {"valid": 1, "code": 1, "index": 3})
                await ctx.tick().repeat(rng.randrange(1, 30))
            ctx.set(dut.errors[0], {"valid": 0})
            await command(ctx, Control.CLEAR)

    simulate(dut, host, background=(arbiters,), limit=100_000)
    assert min(seen.values()) > 20, seen
