"""Table between a host and the machine against a plain list; bursts of reads while the host looks too."""

import pytest
from adagp.rtl.lib.table import Burst, Table
from amaranth import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from bench import seeded, simulate

WIDTH, DEPTH = 10, 13
ENTRY = data.ArrayLayout(WIDTH // 2, 2)


def test_host_and_machine_share_a_table():
    rng, dut = seeded(5), Table(WIDTH, DEPTH)
    seen = {"shown": 0, "data": 0, "both write": 0}

    async def bench(ctx):
        entries = [0] * DEPTH
        shown = data = None
        looking = None
        for _ in range(2000):
            index, addr, write_addr = (rng.randrange(DEPTH) for _ in range(3))
            value, write_data = rng.getrandbits(WIDTH), rng.getrandbits(WIDTH)
            show, sets, writes = (rng.random() < share for share in (0.2, 0.3, 0.3))
            for port, given in (
                (dut.index, index), (dut.addr, addr), (dut.write_addr, write_addr), (dut.value, value),
                (dut.write_data, write_data), (dut.show, show), (dut.set, sets), (dut.write, writes),
            ):  # fmt: skip
                ctx.set(port, given)
            await ctx.delay(1e-9)
            assert ctx.get(dut.ready) == (not show)
            if shown is not None:
                assert ctx.get(dut.shown) == shown
                seen["shown"] += 1
            if data is not None:
                assert ctx.get(dut.data) == data
                seen["data"] += 1
            await ctx.tick()
            shown = looking if looking is not None else shown
            looking = entries[index] if show else None
            data = None if show else entries[addr]
            if writes:
                entries[write_addr] = write_data
                seen["both write"] += sets
            elif sets:
                entries[index] = value

    simulate(dut, bench)
    assert min(seen.values()) > 50, seen


class BurstOfTable(wiring.Component):
    """A burst from entry 2 on, with the host's side of the table."""

    def __init__(self, count):
        self._burst, self._table = Burst(ENTRY, count), Table(ENTRY, DEPTH)
        super().__init__({
            "start": In(1), "done": Out(1), "found": Out(WIDTH * count), "index": In(range(DEPTH)), "show": In(1),
            "set": In(1), "value": In(WIDTH),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.burst, m.submodules.table = burst, table = self._burst, self._table
        m.d.comb += [
            table.addr.eq(burst.position + 2), burst.ready.eq(table.ready), burst.data.eq(table.data),
            burst.start.eq(self.start), self.done.eq(burst.done), self.found.eq(burst.found.as_value()),
            *(getattr(table, name).eq(getattr(self, name)) for name in ("index", "show", "set", "value")),
        ]  # fmt: skip
        return m


@pytest.mark.parametrize("count", [1, 2, 5])
def test_bursts(count):
    rng, dut, seen = seeded(count), BurstOfTable(count), []
    entries = [rng.getrandbits(WIDTH) for _ in range(DEPTH)]

    async def bench(ctx):
        for index, value in enumerate(entries):
            ctx.set(dut.index, index)
            ctx.set(dut.value, value)
            ctx.set(dut.set, 1)
            await ctx.tick()
        ctx.set(dut.set, 0)
        for _ in range(60):
            ctx.set(dut.start, 1)
            ctx.set(dut.show, 0)
            await ctx.tick()
            ctx.set(dut.start, 0)
            cycles = unready = 0
            while not ctx.get(dut.done):
                show = rng.random() < 0.3
                ctx.set(dut.show, show)
                unready += show and cycles < count + unready  # afterwards nothing is read any more
                await ctx.tick()
                cycles += 1
            found = ctx.get(dut.found)
            assert [found >> n * WIDTH & (1 << WIDTH) - 1 for n in range(count)] == entries[2 : 2 + count]
            assert cycles + 1 == count + Burst.BURST_LATENCY + unready
            seen.append(unready)

    simulate(dut, bench)
    assert len(seen) == 60 and min(seen) == 0 and max(seen) > 0
