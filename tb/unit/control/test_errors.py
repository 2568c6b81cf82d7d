"""Control when something is wrong: what it refuses, and how it stops after an error."""

import pytest
from adagp.spec.commands import COMMAND_BYTES, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import DEPTHWISE, NORMS
from adagp.spec.registers import Control as Bit
from adagp.spec.registers import Status
from bench import seeded
from control_bench import CONFIG, END, HOST, PROGRAM, ControlBench, header, update, work

REFUSED = [
    ([work(), END], ErrorCode.NO_HEADER, 0),
    ([header(CONFIG, config_hash=CONFIG.config_hash ^ 1), END], ErrorCode.CONFIG_MISMATCH, 0),
    ([header(CONFIG, version=0x0001_0000), END], ErrorCode.CONFIG_MISMATCH, 0),
    ([header(CONFIG), work(), work(23), END], ErrorCode.BAD_OPCODE, 2),
    *(([header(CONFIG), work(), work(opcode), END], ErrorCode.BAD_OPCODE, 2) for opcode in (*DEPTHWISE, *NORMS)),
    ([header(CONFIG), work(), work(255, phase_mask=1), END], ErrorCode.NONE, None),
    ([header(CONFIG), work(c_mode=2), work(Opcode.AVGPOOL_BACKWARD, c_mode=3, wait_main=9), END],
     ErrorCode.BAD_OPCODE, 2),
    ([header(CONFIG), work(Opcode.FORWARD, c_mode=3), END], ErrorCode.BAD_OPCODE, 1),
    ([header(CONFIG), work(), work(Opcode.ADAM), END], ErrorCode.BAD_OPCODE, 2),
    ([header(CONFIG), update(c_mode=3), END], ErrorCode.NONE, None),
    *(([header(CONFIG), work(**{f"{x}_id": CONFIG.n_tensors}), END], ErrorCode.BAD_TENSOR, 1) for x in ("c", "out")),
    ([header(CONFIG), update(b_id=CONFIG.n_tensors), END], ErrorCode.BAD_TENSOR, 1),
    ([header(CONFIG), work(Opcode.COMMIT, out_id=CONFIG.n_tensors), END], ErrorCode.BAD_TENSOR, 1),
    ([header(CONFIG), work(hyper=CONFIG.n_hyper - 2), update(hyper=CONFIG.n_hyper - 2), END], ErrorCode.BAD_TENSOR, 2),
    ([header(CONFIG), update(hyper=CONFIG.n_hyper - 3), END], ErrorCode.NONE, None),
    ([header(CONFIG), work(), work(wait_main=1), work(wait_main=3), END], ErrorCode.BAD_WAIT, 3),
    ([header(CONFIG), update(), work(wait_update=2), END], ErrorCode.BAD_WAIT, 2),
    *(([header(CONFIG), work(**{f"{x}_addr": 1}), END], ErrorCode.BAD_ADDRESS, 1) for x in ("a", "b", "c", "out")),
    ([header(CONFIG), work(out_addr=2), update(out_addr=CONFIG.beat_bytes - 2), END], ErrorCode.BAD_ADDRESS, 2),
]  # fmt: skip


def test_refusals():
    rng = seeded(14)
    bench = ControlBench(CONFIG, rng)
    seen = 0

    async def host(ctx):
        nonlocal seen
        for program, code, index in REFUSED:
            before = sum(bench.completed.values())
            await bench.start(ctx, program, phase=1)
            status = await bench.wait(ctx)
            seen += 1
            if code == ErrorCode.NONE:
                assert status == Status.DONE
                continue
            assert status == Status.ERROR
            assert await bench.host.read(ctx, "ERROR") == code, (code, index)
            assert await bench.host.read(ctx, "ERROR_INDEX") == index
            assert sum(bench.completed.values()) - before == max(index - 1, 0), "the commands before it are complete"
            assert ctx.get(bench.dut.halt)
            await bench.host.write(ctx, "CONTROL", Bit.START)
            assert await bench.host.read(ctx, "STATUS") == Status.ERROR
            await bench.host.write(ctx, "CONTROL", Bit.CLEAR)
            while await bench.host.read(ctx, "STATUS") & Status.BUSY:
                pass
            assert await bench.host.read(ctx, "STATUS") == 0
            assert await bench.host.read(ctx, "ERROR") == await bench.host.read(ctx, "ERROR_INDEX") == 0
            assert not ctx.get(bench.dut.halt)

    bench.run(host)
    assert seen == len(REFUSED) > 0


@pytest.mark.parametrize("offset", [0, 100])
def test_read_fault(offset):
    bench = ControlBench(CONFIG, seeded(15))
    bench.memory.faults.add(PROGRAM + 2 * COMMAND_BYTES + offset)

    async def host(ctx):
        await bench.start(ctx, [header(CONFIG), work(), work(), END])
        assert await bench.wait(ctx) == Status.ERROR
        assert await bench.host.read(ctx, "ERROR") == ErrorCode.READ_FAULT
        assert await bench.host.read(ctx, "ERROR_INDEX") == 2

    bench.run(host)


async def report(ctx, dut, *reports):
    """Report errors (a source, code, index) for one cycle."""
    for source, code, index in reports:
        ctx.set(dut.errors[source], {"valid": 1, "code": code, "index": index})
    await ctx.tick()
    for source, _, _ in reports:
        ctx.set(dut.errors[source].valid, 0)


def test_errors_of_engines():
    """The earliest command's report counts, late ones too; busy until nothing is outstanding."""
    bench = ControlBench(CONFIG, seeded(16))
    bench.hang = {1, 2}
    dut = bench.dut

    async def host(ctx):
        await bench.host.write(ctx, "IRQ_ENABLE", 1)
        await bench.start(ctx, [header(CONFIG), work(), work(), END])
        while len(bench.log) < 2:
            await ctx.tick()
        bench.busy = True
        ctx.set(dut.losses, [0b0101])
        await report(ctx, dut, (0, 7, 9), (1, 13, 2), (3, 14, 5))
        assert not ctx.get(dut.stop.stopping)
        await ctx.tick().repeat(dut.stop_latency - 1)
        assert ctx.get(dut.stop.stopping) and ctx.get(dut.stop.index) == 2
        assert ctx.get(dut.lost[0].valid) and ctx.get(dut.lost[0].index) == 9
        await report(ctx, dut, (2, 12, 3))
        await ctx.tick().repeat(20)
        assert not ctx.get(dut.halt), "command 1 isn't complete"
        assert ctx.get(dut.stop.index) == 2 and ctx.get(dut.lost[0].index) == 3
        ctx.set(dut.losses, [0b0001])
        await report(ctx, dut, (2, 12, 1), (3, 13, 4))
        await ctx.tick().repeat(dut.stop_latency)
        assert ctx.get(dut.stop.index) == 1 and ctx.get(dut.lost[0].index) == 3
        for _ in range(20):
            assert await bench.host.read(ctx, "STATUS") == Status.BUSY
            assert not ctx.get(dut.irq)
        assert ctx.get(dut.halt)
        await report(ctx, dut, (2, 13, 0))
        bench.busy = False
        assert await bench.wait(ctx) == Status.ERROR
        assert ctx.get(dut.irq)
        assert await bench.host.read(ctx, "ERROR") == ErrorCode.WRITE_REGION
        assert await bench.host.read(ctx, "ERROR_INDEX") == 1

    bench.run(host)


@pytest.mark.parametrize("slow", [1, 2], ids=["main", "update"])
def test_orderly_stop(slow):
    """The machine halts when all commands before the failing one are complete and what has begun is written."""
    bench = ControlBench(CONFIG, seeded(20 + slow))
    bench.hang = {slow, 3, 4}
    dut = bench.dut
    reads = 0

    async def stays_busy(ctx):
        nonlocal reads
        for _ in range(30):
            assert await bench.host.read(ctx, "STATUS") == Status.BUSY
            assert not ctx.get(dut.halt)
            reads += 1

    async def host(ctx):
        await bench.start(ctx, [header(CONFIG), work(), update(), work(), update(), HOST, END])
        while len(bench.log) < 4:
            await ctx.tick()
        await report(ctx, dut, (1, ErrorCode.READ_FAULT, 3))
        await stays_busy(ctx)
        ctx.set(dut.writing, slow)
        bench.hang = {3, 4}
        while not bench.completed["main"] or not bench.completed["update"]:
            await ctx.tick()
        await stays_busy(ctx)
        ctx.set(dut.writing, 0)
        await ctx.tick().repeat(2 + dut.stop_latency)
        assert ctx.get(dut.halt)
        assert await bench.wait(ctx) == Status.ERROR
        assert await bench.host.read(ctx, "ERROR") == ErrorCode.READ_FAULT
        assert await bench.host.read(ctx, "ERROR_INDEX") == 3
        assert bench.completed == {"main": 1, "update": 1, "predictor": 0}

    bench.run(host)
    assert reads == 60


def test_error_before_host():
    """Commands that were handed out complete, but the program doesn't reach HOST any more."""
    bench = ControlBench(CONFIG, seeded(23))
    bench.hang = {1}

    async def host(ctx):
        await bench.start(ctx, [header(CONFIG), work(), HOST, END])
        while len(bench.log) < 1:
            await ctx.tick()
        ctx.set(bench.dut.writing, 1)
        await report(ctx, bench.dut, (2, ErrorCode.WRITE_FAULT, 1))
        bench.hang = set()
        for _ in range(30):
            assert await bench.host.read(ctx, "STATUS") == Status.BUSY
        assert bench.completed["main"] == 1
        ctx.set(bench.dut.writing, 0)
        assert await bench.wait(ctx) == Status.ERROR

    bench.run(host)


@pytest.mark.parametrize("fails", [False, True])
def test_error_before_commit(fails):
    """Exponents stay as they were before the batch that failed."""
    bench = ControlBench(CONFIG, seeded(24))
    bench.hang = {1}
    bench.results[1, 0] = [{"id": 5, "nonzero": 1, "top": 20}]
    found = []

    async def host(ctx):
        await bench.set_exponent(ctx, 5, -4)
        await bench.start(ctx, [header(CONFIG), work(), work(Opcode.COMMIT), END])
        while len(bench.log) < 1:
            await ctx.tick()
        if fails:
            await report(ctx, bench.dut, (2, ErrorCode.WRITE_FAULT, 1))
        ctx.set(bench.dut.writing, 1)
        bench.hang = set()
        while not bench.completed["main"]:
            await ctx.tick()
        await ctx.tick().repeat(100)
        ctx.set(bench.dut.writing, 0)
        assert await bench.wait(ctx) == (Status.ERROR if fails else Status.DONE)
        found.append(await bench.exponent(ctx, 5))

    bench.run(host)
    assert (found[0][0] == -4) == fails
