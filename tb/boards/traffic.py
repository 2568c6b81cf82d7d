"""Bursts on an AXI port as fast as it takes them, counted: cocotb's part of the measurement of a board's memory."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import cocotb
from adagp.boards.memory.controller import DramController
from cocotb.triggers import RisingEdge
from harness import parameters
from test_dram_core import begin

BURSTS = 96
"""Bursts of a pattern; the first ``WARM`` of them aren't counted."""
WARM = 16
SHORT_BEATS = 4
SPAN = 1 << 22
"""Bytes that random bursts lie in."""
LONELY = 48
"""Reads of a beat, each after a pause, for the latency."""

Bursts = Sequence[tuple[int, int]]


class Port:
    """One direction of the port, driven cycle by cycle; ``ends`` are the cycles in which bursts were finished."""

    def __init__(self, dut, prefix, beat_bytes):
        self.dut, self.prefix, self.size = dut, prefix, (beat_bytes - 1).bit_length()
        self.ends: list[int] = []
        self.begins: list[int] = []
        for name, value in (("valid", 0), ("size", self.size), ("burst", 1), ("id", 0)):
            self.set(f"{prefix}{name}", value)

    def set(self, name, value):
        getattr(self.dut, f"axi_{name}").value = value

    def get(self, name):
        return int(getattr(self.dut, f"axi_{name}").value)


async def drive(dut, port: Port, bursts: Bursts, cycle: list[int]) -> None:
    """Offer the addresses of ``bursts`` (address, beats) one after the other."""
    for address, beats in bursts:
        port.set(f"{port.prefix}addr", address)
        port.set(f"{port.prefix}len", beats - 1)
        port.set(f"{port.prefix}valid", 1)
        await RisingEdge(dut.clk)
        port.begins.append(cycle[0])
        while not port.get(f"{port.prefix}ready"):
            await RisingEdge(dut.clk)
    port.set(f"{port.prefix}valid", 0)


async def reading(dut, bursts: Bursts, cycle, beat_bytes) -> Port:
    """Read ``bursts``."""
    port = Port(dut, "ar", beat_bytes)
    port.set("rready", 1)
    addresses = cocotb.start_soon(drive(dut, port, bursts, cycle))
    while len(port.ends) < len(bursts):
        await RisingEdge(dut.clk)
        if port.get("rvalid") and port.get("rlast"):
            port.ends.append(cycle[0])
    await addresses
    return port


async def writing(dut, bursts: Bursts, cycle, beat_bytes) -> Port:
    """Write ``bursts``, of whatever."""
    port = Port(dut, "aw", beat_bytes)
    port.set("bready", 1)
    port.set("wstrb", (1 << beat_bytes) - 1)
    addresses = cocotb.start_soon(drive(dut, port, bursts, cycle))

    async def data():
        for _, beats in bursts:
            for left in reversed(range(beats)):
                port.set("wlast", left == 0)
                port.set("wvalid", 1)
                await RisingEdge(dut.clk)
                while not port.get("wready"):
                    await RisingEdge(dut.clk)
        port.set("wvalid", 0)

    sending = cocotb.start_soon(data())
    while len(port.ends) < len(bursts):
        await RisingEdge(dut.clk)
        if port.get("bvalid"):
            port.ends.append(cycle[0])
    await addresses
    await sending
    return port


def rate(ports: Sequence[Port], bursts: Bursts, beat_bytes: int) -> float:
    """Bytes a cycle of all ports together, while none is at its first bursts and none has finished."""
    begin_at = max(port.ends[WARM - 1] for port in ports)
    end_at = min(port.ends[-1] for port in ports)
    moved = sum(beats for port in ports for (_, beats), end in zip(bursts, port.ends, strict=True)
                if begin_at < end <= end_at)  # fmt: skip
    assert moved
    return moved * beat_bytes / (end_at - begin_at)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def speed(dut):
    """Bytes a cycle of a few patterns, and the latency of a read on its own."""
    config, values = parameters()
    beat_bytes = config.beat_bytes
    await begin(dut, DramController.load(Path(values["controller"])))
    rng, cycle = random.Random(cocotb.RANDOM_SEED), [0]
    long = config.max_burst_beats

    async def count():
        while True:
            await RisingEdge(dut.clk)
            cycle[0] += 1

    cocotb.start_soon(count())

    def row(beats, scattered=False, base=0):
        places = rng.sample(range(SPAN // (beats * beat_bytes)), BURSTS) if scattered else range(BURSTS)
        return [(base + place * beats * beat_bytes, beats) for place in places]

    found = {}
    for name, work, bursts in (
        ("read_sequential", reading, row(long)), ("write_sequential", writing, row(long)),
        ("read_scattered", reading, row(long, True)), ("write_scattered", writing, row(long, True)),
        ("read_short", reading, row(SHORT_BEATS, True)), ("write_short", writing, row(SHORT_BEATS, True)),
    ):  # fmt: skip
        port = await work(dut, bursts, cycle, beat_bytes)
        found[name] = rate([port], bursts, beat_bytes)
    bursts = row(long)
    copy = cocotb.start_soon(writing(dut, row(long, base=SPAN), cycle, beat_bytes))
    read = await reading(dut, bursts, cycle, beat_bytes)
    found["copy"] = rate([read, await copy], bursts, beat_bytes)
    waits = []
    for _ in range(LONELY):
        for _ in range(rng.randrange(20, 120)):
            await RisingEdge(dut.clk)
        port = await reading(dut, [(rng.randrange(SPAN // 64) * 64, 1)], cycle, beat_bytes)
        waits.append(port.ends[0] - port.begins[0])
    found["latency_cycles"] = sum(waits) / len(waits)
    assert all(value > 0 for value in found.values())
    Path(values["out"]).write_text(json.dumps(found))
