"""Lanes of the drain engine against arithmetic in Python: masks, shifts, places in C."""

from dataclasses import replace

import pytest
from adagp.rtl.drain.lanes import lane_addresses, lane_masks, lane_offsets, lane_shifts
from adagp.rtl.lib.interfaces import descriptor_layout
from adagp.spec.microcode.descriptors import DRAIN
from adagp.spec.presets import preset
from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from bench import seeded, simulate

TINY = preset("tiny")
CONFIGS = {"tiny": TINY, "wide": replace(TINY, cols=8)}
BEFORE = data.StructLayout({"plain": 1, "last_out": 1, "last_in": 1})


class Lanes(wiring.Component):
    """All functions of the module around one descriptor."""

    def __init__(self, config):
        self._config, lanes = config, config.result_lanes
        super().__init__({
            "d": In(descriptor_layout(DRAIN)), "before": In(BEFORE), "en": In(1),
            "address": In(range(config.c_depth * config.banks)),
            "full": Out(lanes), "tail": Out(lanes), "rot": Out(range(config.banks)),
            "shift": Out(data.ArrayLayout(8, lanes)),
            "addr": Out(data.ArrayLayout(range(2 * config.c_depth), lanes)),
        })  # fmt: skip

    def elaborate(self, platform):
        m, config = Module(), self._config
        full, tail = lane_masks(m, config, self.d)
        m.d.comb += [self.full.eq(full), self.tail.eq(tail)]
        shifts = [Signal(8, name=f"shift{lane}") for lane in range(len(tail))]

        class Epilogue:
            shift = shifts

        lane_shifts(m, config, self.d, self.en, self.before, tail, None, Epilogue)  # no vector brings shifts
        m.d.comb += [to.eq(shift) for to, shift in zip(self.shift, shifts, strict=True)]
        lane_addresses(m, config, self.d, self, self.address, lane_offsets(m, config, self.d), self.en)
        return m


@pytest.mark.parametrize("name", CONFIGS)
def test_descriptors(name):
    rng, config = seeded(len(name)), CONFIGS[name]
    dut, lanes, seen = Lanes(config), config.result_lanes, {"ones": 0, "held": 0, "carried": 0}

    async def bench(ctx):
        for _ in range(120):
            step = config.banks * rng.randrange(8) + 1  # lanes lie in neighbouring banks
            d = {
                "vector": rng.getrandbits(1), "lanes_last": rng.randint(1, lanes), "lane_step": step,
                "half": rng.getrandbits(1), "ones": rng.getrandbits(1), "swap": rng.getrandbits(1),
                "shift": rng.randrange(40), "shift_ones": rng.randrange(40),
            }  # fmt: skip
            for field, value in d.items():
                ctx.set(getattr(dut.d, field), value)
            ctx.set(dut.en, 0)
            await ctx.tick()
            assert ctx.get(dut.full) == (1 << (config.rows if d["vector"] else config.cols)) - 1
            assert ctx.get(dut.tail) == (1 << d["lanes_last"]) - 1
            for _ in range(3):
                address = rng.randrange(config.c_depth * config.banks // 8)
                before = {name: rng.getrandbits(1) for name in ("plain", "last_out", "last_in")}
                ctx.set(dut.address, address)
                ctx.set(dut.before, before)
                held = [ctx.get(port) for port in (dut.rot, *dut.shift, *dut.addr)]
                ctx.set(dut.en, 0)
                await ctx.tick()
                assert [ctx.get(port) for port in (dut.rot, *dut.shift, *dut.addr)] == held
                seen["held"] += 1
                ctx.set(dut.en, 1)
                await ctx.tick()
                assert ctx.get(dut.rot) == address % config.banks
                for lane in range(lanes):
                    place = address + lane * step
                    word = place // config.banks % (config.c_depth)
                    assert ctx.get(dut.addr[lane]) == word + d["half"] * config.c_depth, (lane, address, step)
                    seen["carried"] += address % config.banks + lane >= config.banks
                    corner = lane == d["lanes_last"] - 1  # the ones row is the last of the tail
                    ones = d["ones"] and (before["last_out"] and corner if d["swap"] else before["last_in"])
                    expected = 0 if before["plain"] else d["shift_ones"] if ones else d["shift"]
                    assert ctx.get(dut.shift[lane]) == expected
                    seen["ones"] += bool(ones and not before["plain"])

    simulate(dut, bench)
    assert min(seen.values()) > 50, seen
