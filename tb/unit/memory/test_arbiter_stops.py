"""Arbiters that are to begin nothing: halt, and hold of single clients."""

import pytest
from adagp.rtl.memory.arbiters import ReadArbiter, WriteArbiter
from adagp.spec.presets import preset
from bench import simulate


@pytest.mark.parametrize("arbiter", [ReadArbiter, WriteArbiter])
def test_halt_starts_nothing_and_finishes_what_is_begun(arbiter):
    config = preset("tiny")
    dut = arbiter(config, 2)
    read = arbiter is ReadArbiter
    prefix = "ar" if read else "aw"
    seen = []

    async def bench(ctx):
        axi, client = dut.axi, dut.clients[1]
        ctx.set(client.request.payload, {"addr": 64, "length": 1})
        ctx.set(client.request.valid, 1)
        await ctx.tick().repeat(2)
        ctx.set(dut.halt, 1)
        ctx.set(client.beats.ready if read else client.beats.valid, 1)
        await ctx.tick().repeat(5)  # the address waits, unaffected by halt
        assert ctx.get(getattr(axi, f"{prefix}valid")) and not ctx.get(dut.idle)
        ctx.set(getattr(axi, f"{prefix}ready"), 1)
        await ctx.tick()
        for beat in range(2):
            if read:
                for field, value in (("rvalid", 1), ("rid", 1), ("rlast", beat)):
                    ctx.set(getattr(axi, field), value)
            else:
                ctx.set(axi.wready, 1)
            await ctx.tick()
        if read:
            ctx.set(axi.rvalid, 0)
            await ctx.tick()
        else:
            ctx.set(axi.bvalid, 1)
            await ctx.tick()
            ctx.set(axi.bvalid, 0)
        for _ in range(10):
            await ctx.tick()
            seen.append((ctx.get(dut.idle), ctx.get(getattr(axi, f"{prefix}valid"))))
        ctx.set(dut.halt, 0)
        for _ in range(3):
            assert not ctx.get(getattr(axi, f"{prefix}valid")), "what waited is dropped"
            await ctx.tick()
        seen.append((ctx.get(dut.idle), ctx.get(getattr(axi, f"{prefix}valid"))))

    simulate(dut, bench)
    assert seen == [(1, 0)] * 10 + [(0, 1)]


def test_hold_keeps_single_clients_back():
    """A held client's request begins when the client is let go, not before; the other goes on meanwhile."""
    config = preset("tiny")
    dut = WriteArbiter(config, 2)
    begun = []

    async def take(ctx):
        while True:
            ctx.set(dut.axi.awready, 1)
            _, _, valid, number, ready = await ctx.tick().sample(
                dut.axi.awvalid, dut.axi.awid, dut.clients[0].request.ready
            )
            if valid:
                begun.append(number)
            assert not (ready and ctx.get(dut.hold[0]))

    async def bench(ctx):
        for client in dut.clients:
            ctx.set(client.request.valid, 1)
        ctx.set(dut.hold, 1)
        await ctx.tick().repeat(8)
        assert set(begun) == {1} and len(begun) > 3
        ctx.set(dut.clients[1].request.valid, 0)
        await ctx.tick().repeat(5)
        assert set(begun) == {1}
        ctx.set(dut.hold, 0)
        await ctx.tick().repeat(4)
        assert begun[-1] == 0

    simulate(dut, bench, background=(take,))


def test_beats_before_their_burst_wait():
    """A held client may offer beats already: none moves before its burst's turn, and the other's aren't mistaken."""
    dut = WriteArbiter(preset("tiny"), 2)
    begun, moved = [], []

    async def take(ctx):
        axi = dut.axi
        ctx.set(axi.awready, 1)
        ctx.set(axi.wready, 1)
        answers = []
        while True:
            ctx.set(axi.bvalid, bool(answers))
            if answers:
                ctx.set(axi.bid, answers.pop(0))
            _, _, announced, number, valid, data = await ctx.tick().sample(axi.awvalid, axi.awid, axi.wvalid, axi.wdata)
            if announced:
                begun.append(number)
            if valid:
                moved.append(data)
                answers.append(data)
                assert moved == begun[: len(moved)]

    async def bench(ctx):
        for number, client in enumerate(dut.clients):
            ctx.set(client.beats.payload.data, number)
            ctx.set(client.beats.valid, 1)
            ctx.set(client.request.valid, 1)
        ctx.set(dut.hold, 1)
        await ctx.tick().repeat(20)
        assert set(moved) == {1} and len(moved) > 5
        ctx.set(dut.hold, 0)
        await ctx.tick().repeat(20)
        assert set(moved[-6:]) == {0, 1}

    simulate(dut, bench, background=(take,))
