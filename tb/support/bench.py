"""Tools of the unit benches: a simulator with a time limit, stream sources and sinks that stall."""

import random
from contextlib import nullcontext

from amaranth.hdl import Fragment
from amaranth.sim import Simulator

__all__ = ["cycles_until", "seeded", "simulate", "sink", "source"]


def seeded(seed: int) -> random.Random:
    """A generator of random numbers whose seed is on the test's output."""
    print(f"seed {seed}")
    return random.Random(seed)


async def cycles_until(ctx, done, most):
    """Wait for a signal after the cycle of a start; returns the cycles from there, which are ``most`` at most."""
    cycles = 1
    while not ctx.get(done):
        await ctx.tick()
        cycles += 1
        assert cycles <= most
    return cycles


async def source(ctx, port, payloads, rng, stall=0.3):
    """Offer ``payloads`` on a stream whose sink is the device, with random pauses."""
    for payload in payloads:
        while rng.random() < stall:
            await ctx.tick()
        ctx.set(port.payload, payload)
        ctx.set(port.valid, 1)
        await ctx.tick().until(port.ready)
        ctx.set(port.valid, 0)


async def sink(ctx, port, count, rng, stall=0.3):
    """Take ``count`` payloads from a stream whose source is the device, with random pauses."""
    taken = []
    while len(taken) < count:
        while rng.random() < stall:
            await ctx.tick()
        ctx.set(port.ready, 1)
        (payload,) = await ctx.tick().sample(port.payload).until(port.valid)
        ctx.set(port.ready, 0)
        taken.append(payload)
    return taken


def simulate(dut, *benches, background=(), limit=100_000, vcd=None):
    """Run async testbenches ``bench(ctx)`` to their end; AssertionError after ``limit`` cycles.

    Those in ``background`` run beside them and need not end.
    """
    simulator = Simulator(Fragment.get(dut, None))
    simulator.add_clock(1e-8)
    done = []

    async def watchdog(ctx):
        for _ in range(limit):
            await ctx.tick()
        raise AssertionError(f"no end within {limit} cycles; {len(done)} of {len(benches)} benches ended")

    def counted(bench):
        async def run(ctx):
            await bench(ctx)
            done.append(bench)

        return run

    for bench in benches:
        simulator.add_testbench(counted(bench))
    for bench in (watchdog, *background):
        simulator.add_testbench(bench, background=True)
    with simulator.write_vcd(vcd) if vcd else nullcontext():
        simulator.run()
    assert len(done) == len(benches) > 0
