"""The key of dropout: registers SEED and BATCH, in variants without a predictor too."""

from dataclasses import replace

import pytest
from adagp.spec.commands import Opcode
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from bench import seeded
from control_bench import END, ControlBench, header, work

SEED, FIRST, N_BATCHES = 0x8765_4321, 0xFFFF_FFFE, 4


@pytest.mark.parametrize("variant", ["baseline", "low"])
def test_it_stands_from_a_tasks_begin_to_its_end(variant):
    """BATCH goes on from what the host wrote, also beyond 32 bits."""
    config = replace(preset("tiny"), dropout=True, variant=variant)
    program = [header(config), work(Opcode.AVGPOOL, momentum=1), work(Opcode.AVGPOOL), work(Opcode.COMMIT), END]
    bench, seen = ControlBench(config, seeded(45)), []
    expected = [(SEED, (FIRST + batch) % (1 << 32)) for batch in range(N_BATCHES) for _ in range(4)]

    async def watch(ctx):
        dut = bench.dut
        signals = (dut.task.valid & dut.task.ready, dut.main_done, dut.drop_key)
        async for _, _, begins, ends, key in ctx.tick().sample(*signals):
            seen.extend([(key.seed, key.batch)] * (begins + ends))

    async def host(ctx):
        for name, value in (("SEED", SEED), ("BATCH", FIRST)):
            await bench.host.write(ctx, name, value)
        await bench.start(ctx, program, 0, N_BATCHES)
        assert await bench.wait(ctx) == Status.DONE

    bench.background.append(watch)
    bench.run(host)
    assert seen == expected
