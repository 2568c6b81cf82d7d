"""Prefetch against a model of memory; the checks of fetch are tested with Control."""

import dataclasses

import pytest
from adagp.rtl.control.prefetch import Prefetch
from adagp.spec.commands import COMMAND_BYTES, FIELDS, Command, Opcode
from adagp.spec.presets import preset
from bench import seeded, simulate
from memory import ReadMemory


def random_command(rng):
    values = {f.name: rng.randint(f.minimum, f.maximum) for f in FIELDS if f.name != "opcode"}
    return Command(Opcode(rng.randrange(12)), values)


@pytest.mark.parametrize(
    "name, max_burst_beats", [("tiny", 64), ("tiny", 2), ("ecp5", 64), ("paper", 64), ("paper", 1)]
)
def test_prefetch(name, max_burst_beats):
    config = dataclasses.replace(preset(name), max_burst_beats=max_burst_beats)
    rng = seeded(12)
    dut = Prefetch(config)
    program = [random_command(rng) for _ in range(40)]
    base = 0x1F80
    memory = ReadMemory(config, dut.client, rng)
    memory.load(base, b"".join(w.to_bytes(4, "little") for c in program for w in c.encode()))
    faulty = 23
    memory.faults.add(base + faulty * COMMAND_BYTES + COMMAND_BYTES // 2)
    seen = 0

    async def take(ctx, index):
        nonlocal seen
        while rng.random() < 0.3:
            await ctx.tick()
        ctx.set(dut.commands.ready, 1)
        (got,) = await ctx.tick().sample(dut.commands.payload).until(dut.commands.valid)
        ctx.set(dut.commands.ready, 0)
        assert (got.index, got.fault) == (index, index == faulty)
        if index != faulty:
            assert {f.name: got.command[f.name] for f in FIELDS} == {
                "opcode": program[index].opcode, **program[index].fields,
            }  # fmt: skip
            seen += 1

    async def stop(ctx):
        ctx.set(dut.enable, 0)
        await ctx.tick()
        while not ctx.get(dut.quiet):
            await ctx.tick()
        assert memory.beats_due == 0

    async def bench(ctx):
        ctx.set(dut.program, base + 77)
        for pieces in ((3, 0, 7), (25, 15), (1,)):
            ctx.set(dut.rewind, 1)
            await ctx.tick()
            ctx.set(dut.rewind, 0)
            index = 0
            for piece in pieces:
                ctx.set(dut.enable, 1)
                for _ in range(piece):
                    await take(ctx, index)
                    index += 1
                for _ in range(rng.randrange(60)):
                    await ctx.tick()
                await stop(ctx)
        assert max(memory.addresses) < base + (40 + 3) * COMMAND_BYTES

    simulate(dut, bench, background=(memory.serve,))
    assert seen == 10 + 39 + 1
