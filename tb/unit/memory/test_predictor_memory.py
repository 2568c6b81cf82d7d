"""The predictor memory between a master and an AXI memory that interleaves ids, both of which pause."""

import pytest
from adagp.rtl.lib.block_memory import BlockMemory
from adagp.rtl.memory import banked_memory
from bench import simulate
from predictor_bench import Harness, build


@pytest.mark.parametrize("name", ["tiny", "paper"])
@pytest.mark.parametrize(("stall", "data_first"), [(0.0, False), (0.4, False), (0.2, True)])
def test_both_sides(name, stall, data_first):
    """Data, faults, order by id, counts: whatever interleaves, nothing is lost, and reads see what was written."""
    harness = Harness(name, stall, data_first)
    harness.run(150, 120)
    assert min(harness.seen.values()) > 20 and harness.alternations > 40
    assert min(harness.expected.values()) > 200
    written = [address for address, word in harness.memory.items() if harness.inside(address) and word]
    assert len(written) > 30


def test_no_window_passes_all_on():
    harness = Harness("tiny", 0.3, windowed=False)
    harness.run(60, 60)
    assert harness.counted["moved"] == 0 == harness.seen[1, "read"] and harness.counted["write_bytes"] > 0


def test_an_address_for_the_port_passes_a_cycle_later_and_the_window_gives_a_beat_a_cycle():
    config, window, dut = build("tiny")
    bursts, length, rest = 6, 4, 5
    valid = []

    async def bench(ctx):
        ctx.set(dut.window, window)
        ctx.set(dut.i_read.rready, 1)
        await ctx.tick().repeat(2)
        ctx.set(dut.i_read.araddr, window - config.beat_bytes)
        ctx.set(dut.i_read.arvalid, 1)
        assert not ctx.get(dut.o_read.arvalid) and ctx.get(dut.i_read.arready)
        await ctx.tick()
        ctx.set(dut.i_read.arvalid, 0)
        assert ctx.get(dut.o_read.arvalid) and ctx.get(dut.o_read.araddr) == window - config.beat_bytes
        ctx.set(dut.o_read.arready, 1)
        await ctx.tick()
        assert not ctx.get(dut.o_read.arvalid)
        ctx.set(dut.i_read.araddr, window)
        ctx.set(dut.i_read.arid, 1)  # id 0 waits for the port's answer
        ctx.set(dut.i_read.arlen, length - 1)
        ctx.set(dut.o_read.arready, 0)
        for cycle in range(bursts * length + 2 * rest):
            ctx.set(dut.i_read.arvalid, cycle < bursts)
            assert ctx.get(dut.i_read.arready) or cycle >= bursts
            valid.append(ctx.get(dut.i_read.rvalid))
            await ctx.tick()

    simulate(dut, bench)
    assert valid == [0] * rest + [1] * (bursts * length) + [0] * rest


def test_memory_blocks_are_read_only_for_words_of_bursts(monkeypatch):
    """Reading takes power: bursts on both sides of a border of banks read each word once, from its own bank."""
    banks = []

    class Bank(BlockMemory):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            banks.append(self)

    monkeypatch.setattr(banked_memory, "BlockMemory", Bank)
    config, window, dut = build("tiny")
    length, border = 8, 1024 * config.beat_bytes
    reads = {}

    async def bench(ctx):
        ctx.set(dut.window, window)
        await ctx.tick().repeat(2)
        for start in (border - length * config.beat_bytes, border):
            ctx.set(dut.i_read.araddr, window + start)
            ctx.set(dut.i_read.arlen, length - 1)
            ctx.set(dut.i_read.arvalid, 1)
            for cycle in range(4 * length):
                ctx.set(dut.i_read.rready, cycle % 2)
                for number, bank in enumerate(banks):
                    reads[number] = reads.get(number, 0) + ctx.get(bank.r_en)
                await ctx.tick()
                ctx.set(dut.i_read.arvalid, 0)

    simulate(dut, bench)
    assert len(banks) > 1 and [reads[number] for number in range(2)] == [length, length]
    assert sum(reads.values()) == 2 * length
