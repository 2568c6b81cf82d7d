"""A reset on its way from block to block."""

from dataclasses import replace

import pytest
from adagp.rtl.control.supervisor import RESET_CYCLES
from adagp.rtl.core import Core
from adagp.rtl.top import Top
from adagp.rtl.update import update
from adagp.rtl.update.arrays import array_bytes
from adagp.rtl.update.chunks import chunk_weights
from adagp.spec.presets import PRESETS, preset
from amaranth.hdl import Cat, DomainRenamer, Fragment, Mux, ResetInserter, Signal
from amaranth.sim import Simulator
from bench import simulate


@pytest.mark.parametrize("name", PRESETS)
def test_it_has_reached_all_blocks_before_it_leaves_the_first(name):
    """One register at the top, then the cores, one behind the other."""
    assert 1 + replace(preset(name), variant="max").n_cores * Core.RESETS < RESET_CYCLES


def test_it_leaves_a_core_when_it_has_been_in_all_of_its_blocks():
    dut = Core(preset("tiny"))
    seen = []

    async def bench(ctx):
        for cycle in range(4 * Core.RESETS):
            ctx.set(dut.reset, cycle < RESET_CYCLES)
            await ctx.tick()
            seen.append(ctx.get(dut.restarted))

    simulate(dut, bench)
    assert seen == [Core.RESETS <= cycle + 1 < RESET_CYCLES + Core.RESETS for cycle in range(4 * Core.RESETS)]


def test_it_reaches_reader_and_writer_of_an_update(monkeypatch):
    """They are in a domain of their own, as on a platform: what resets the unit doesn't reset them."""
    monkeypatch.setattr(update, "without_reset", lambda m, platform, name: DomainRenamer(name))
    config = preset("tiny")
    dut, reset = update.Update(config), Signal()
    chunk, begin = chunk_weights(config), 400
    seen = []

    async def bench(ctx):
        for region in dut.regions:
            ctx.set(region.end, 1 << 20)
        ctx.set(dut.i.payload, {"count": 2 * chunk, "out_addr": 1 << 12})
        ctx.set(dut.i.valid, 1)
        asked = come = 0
        for cycle in range(begin + 20):  # both ports get a request that waits: the second chunk's, the first's weights
            read = dut.read
            ctx.set(read.request.ready, asked < chunk * sum(array_bytes(config).values()) // config.beat_bytes)
            ctx.set(read.beats.valid, come < asked)
            ctx.set(Cat(reset, dut.reset), -(cycle >= begin))
            seen.append((ctx.get(read.request.valid), ctx.get(dut.write.request.valid)))
            asked += ctx.get(Mux(read.request.valid & read.request.ready, read.request.p.length + 1, 0))
            come += ctx.get(read.beats.valid)
            await ctx.tick()

    simulator = Simulator(Fragment.get(ResetInserter(reset)(dut), None))
    simulator.add_clock(1e-8)
    simulator.add_clock(1e-8, domain="apart")
    simulator.add_testbench(bench)
    simulator.run()
    assert seen[begin - 1] == (1, 1)
    assert set(seen[begin + update.Update.RESETS + 1 :]) == {(0, 0)}


def test_the_update_gets_it():
    """A simulator can't tell that from what it does: there its reader and writer are reset with the unit."""
    dut, seen = Top(preset("tiny")), []

    async def bench(ctx):
        for _ in range(2 * RESET_CYCLES + 8):
            await ctx.tick()
            seen.append(ctx.get(dut.update.reset))

    simulate(dut, bench)
    assert sum(seen) >= RESET_CYCLES
    assert not seen[-1]
