"""Control when it doesn't just run: HOST, CLEAR, counters."""

import pytest
from adagp.spec.commands import COMMAND_BYTES
from adagp.spec.registers import COUNTERS, Status
from adagp.spec.registers import Control as Bit
from bench import seeded
from control_bench import CONFIG, END, HOST, PROGRAM, ControlBench, encode, header, update, work

PLACE = {name: place for place, (name, _) in enumerate(COUNTERS)}


def test_host_and_resume():
    """HOST waits for what came before it; what the host then changes in the program counts."""
    bench = ControlBench(CONFIG, seeded(17))
    program = [header(CONFIG), work(), update(), HOST, work(layer=1), HOST, END]

    async def host(ctx):
        await bench.host.write(ctx, "IRQ_ENABLE", 1)
        await bench.start(ctx, program, phase=3, batches=2)
        for batch in range(2):
            assert await bench.wait(ctx) == Status.HOST | Status.BUSY
            assert ctx.get(bench.dut.irq)
            assert bench.completed == {"main": 1 + 2 * batch, "update": 1 + batch, "predictor": 0}
            cycles = await bench.counter(ctx, 3, PLACE["cycles"])
            bench.memory.load(PROGRAM + 4 * COMMAND_BYTES, encode([work(layer=7 + batch)]))
            await bench.host.write(ctx, "CONTROL", Bit.START)
            assert await bench.host.read(ctx, "STATUS") == Status.HOST | Status.BUSY
            assert await bench.counter(ctx, 3, PLACE["cycles"]) == cycles > 0
            await bench.host.write(ctx, "CONTROL", Bit.RESUME)
            assert await bench.wait(ctx) == Status.HOST | Status.BUSY
            assert bench.log[-1][3].command.layer == 7 + batch
            assert await bench.counter(ctx, 3, PLACE["cycles"]) > cycles
            assert await bench.host.read(ctx, "BATCH") == batch
            await bench.host.write(ctx, "CONTROL", Bit.RESUME)
        assert await bench.wait(ctx) == Status.DONE
        assert await bench.host.read(ctx, "BATCH") == 2

    bench.run(host)


def test_clear_aborts():
    bench = ControlBench(CONFIG, seeded(18))
    bench.hang = {2}
    program = [header(CONFIG), work(), work(), work(), END]

    async def host(ctx):
        await bench.start(ctx, program)
        while bench.completed["main"] < 1:
            assert await bench.host.read(ctx, "STATUS") == Status.BUSY
        bench.busy = True
        await bench.host.write(ctx, "CONTROL", Bit.CLEAR)
        for _ in range(5):
            assert await bench.host.read(ctx, "STATUS") == Status.BUSY
        assert ctx.get(bench.dut.halt)
        resets = bench.resets
        bench.busy = False
        while await bench.host.read(ctx, "STATUS"):
            pass
        assert bench.resets == resets + 1
        bench.hang = set()
        bench.log.clear()
        await bench.start(ctx, program)
        assert await bench.wait(ctx) == Status.DONE
        assert [entry[1] for entry in bench.log] == [1, 2, 3]
        assert bench.resets == resets + 2

    bench.run(host)


@pytest.mark.parametrize("last", [Bit.START, Bit.CLEAR])
def test_start_counts_while_clear_is_being_done(last):
    """Whatever the pause between them: a START behind a CLEAR runs the program, a CLEAR behind that calls it off."""
    rng = seeded(41)
    bench = ControlBench(CONFIG, rng)

    async def host(ctx):
        for _ in range(8):
            bench.log.clear()
            await bench.start(ctx, [header(CONFIG), work(), END])
            await ctx.tick().repeat(rng.randrange(1, 60))  # anywhere in reset or program
            bench.busy = rng.random() < 0.5  # what is under way takes its time to end
            for bit in (Bit.CLEAR, Bit.START, Bit.CLEAR) if last == Bit.CLEAR else (Bit.CLEAR, Bit.START):
                await bench.host.write(ctx, "CONTROL", bit)
                await ctx.tick().repeat(rng.randrange(1, 12))
            bench.busy = False
            bench.log.clear()
            status = await bench.wait(ctx) if last == Bit.START else await _idle(bench, ctx)
            assert (status & Status.DONE != 0) == (len(bench.log) == 1) == (last == Bit.START)

    bench.run(host)


def test_tables_can_be_read_while_the_machine_is_reset():
    """As docs/machine.md says of everything: at any time, the cycles of a reset included."""
    rng = seeded(42)
    bench = ControlBench(CONFIG, rng)
    entries = {tensor: rng.choice([*range(-30, 0), *range(1, 30)]) for tensor in rng.sample(range(CONFIG.n_tensors), 6)}

    async def host(ctx):
        seen = 0
        for tensor, value in entries.items():
            await bench.set_exponent(ctx, tensor, value)
        for _ in range(8):
            await bench.host.write(ctx, "CONTROL", Bit.CLEAR)
            await ctx.tick().repeat(rng.randrange(1, 8))
            for tensor, value in entries.items():
                seen += ctx.get(bench.dut.reset)
                assert await bench.exponent(ctx, tensor) == (value, 0, 0)
        assert seen > 8

    bench.run(host)


async def _idle(bench, ctx):
    for _ in range(40):
        status = await bench.host.read(ctx, "STATUS")
    assert not status & Status.BUSY
    return status


@pytest.mark.parametrize("stall", ["stall_idle", "array_cycles"])
def test_counters(stall):
    """Engines' counts arrive exactly, but for the time until their first reset; the shares of the cycles count
    while a program runs only."""
    rng = seeded(19)
    bench = ControlBench(CONFIG, rng)
    dut = bench.dut
    totals = dict.fromkeys(("macs", "read_bytes", "write_bytes", "saturations"), 0)
    counting = False

    async def engines(ctx):
        while True:
            heard = counting or ctx.get(dut.reset)
            counts = {name: rng.getrandbits(len(dut.counts[name])) * heard for name in totals}
            ctx.set(dut.counts, {**counts, stall: 1, "cycles": 1, "commands": 1})
            for name in totals:
                totals[name] += counts[name] * counting
            await ctx.tick()

    async def host(ctx):
        nonlocal counting
        counting = True
        await bench.start(ctx, [header(CONFIG), work(), update(), END], phase=0, batches=2)
        assert await bench.wait(ctx) == Status.DONE
        counting = False
        for _ in range(40):
            await ctx.tick()
        for name, total in totals.items():
            assert await bench.counter(ctx, 0, PLACE[name]) == total > 0, name
        assert await bench.counter(ctx, 0, PLACE["commands"]) == 8
        cycles = await bench.counter(ctx, 0, PLACE["cycles"])
        assert cycles == await bench.counter(ctx, 0, PLACE[stall]) > 0
        await bench.host.write(ctx, "CONTROL", Bit.RESET_COUNTERS)
        for name in PLACE:
            assert await bench.counter(ctx, 0, PLACE[name]) == 0

    bench.background.append(engines)
    bench.run(host)
