"""The DRAM model's timing against figures worked out by hand, and its faults."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.sim import DECERR, IDEAL, SLVERR, Fault
from adagp.spec.presets import preset
from adagp.spec.registers import register
from memory_traffic_dut import READ, TARGET, WRITE, simulation, start

CONFIG = preset("tiny")
CYCLE_NS = 1e9 / CONFIG.clock_hz
BEAT = CONFIG.beat_bytes
GARBAGE = 0xA5
"""The value that a byte reads as while it changes."""


def part(bytes_per_cycle=1 << 30, latency=0, granule=1, refresh_every=0, refresh=0, turnaround=0, outstanding=64):
    """A part with its timing in cycles."""
    return replace(
        IDEAL, name="test", bandwidth_bytes=bytes_per_cycle * CONFIG.clock_hz, burst_bytes=granule,
        latency_ns=latency * CYCLE_NS, refresh_interval_ns=refresh_every * CYCLE_NS, refresh_ns=refresh * CYCLE_NS,
        turnaround_ns=turnaround * CYCLE_NS, max_outstanding=outstanding,
    )  # fmt: skip


def cycles(tmp_path, memory, bursts, beats, phase=READ):
    with simulation(CONFIG, tmp_path, memory) as device:
        start(device, bursts, beats, phase)
        return device.run_until_irq(1_000_000)


def test_ideal_runs_at_the_ports_rate(tmp_path):
    for phase in (READ, WRITE, READ | WRITE):
        assert 1600 <= cycles(tmp_path, IDEAL, 100, 16, phase) <= 1600 + 24


def test_latency(tmp_path):
    base = cycles(tmp_path, IDEAL, 1, 16)
    assert cycles(tmp_path, part(latency=37), 1, 16) == base + 37


def test_latency_is_hidden_by_outstanding_bursts(tmp_path):
    assert cycles(tmp_path, part(latency=100, outstanding=16), 100, 16) <= 1600 + 110
    assert cycles(tmp_path, part(latency=100, outstanding=1), 100, 16) >= 100 * (100 + 16)


@pytest.mark.parametrize("phase", [READ, WRITE])
def test_bandwidth(tmp_path, phase):
    expected = 100 * 16 * BEAT / 3
    assert expected - 20 <= cycles(tmp_path, part(bytes_per_cycle=3), 100, 16, phase) <= expected + 20


def test_reads_and_writes_share_the_bandwidth(tmp_path):
    expected = 2 * 100 * 16 * BEAT / 4
    assert expected <= cycles(tmp_path, part(bytes_per_cycle=4), 100, 16, READ | WRITE) <= expected * 1.02 + 40


def test_a_short_burst_costs_a_granule(tmp_path):
    expected = 200 * 64 / 4
    assert expected - 20 <= cycles(tmp_path, part(bytes_per_cycle=4, granule=64), 200, 1) <= expected + 20


def test_refresh(tmp_path):
    base = cycles(tmp_path, part(bytes_per_cycle=4), 200, 16)
    seen = cycles(tmp_path, part(bytes_per_cycle=4, refresh_every=500, refresh=50), 200, 16)
    assert base * 1.09 <= seen <= base * 1.13  # 50 cycles lost for every 450 worked


def test_turnaround(tmp_path):
    base = cycles(tmp_path, part(bytes_per_cycle=16), 100, 16, READ | WRITE)
    seen = cycles(tmp_path, part(bytes_per_cycle=16, turnaround=40), 100, 16, READ | WRITE)
    assert seen > base + 40


@pytest.mark.parametrize("response", [SLVERR, DECERR])
@pytest.mark.parametrize("write", [False, True])
def test_nth_burst_fails(tmp_path, write, response):
    with simulation(CONFIG, tmp_path, faults=[Fault(write, response, nth=3)]) as device:
        before = device.memory.copy()
        start(device, 6, 4)
        device.run_until_irq(1000)
        assert device.read_register(register("ERROR").offset) == response
        target = device.memory[TARGET : TARGET + 6 * 32].reshape(6, 32)
        bad = [index for index in range(6) if (target[index] != before[32 * index : 32 * index + 32]).any()]
        assert bad == [3]
        if write:  # not made
            assert (target[3] == before[TARGET + 96 : TARGET + 128]).all()


@pytest.mark.parametrize("beat", [0, 2, 7])
def test_one_beat_fails(tmp_path, beat):
    with simulation(CONFIG, tmp_path, faults=[Fault(False, SLVERR, nth=1, beat=beat)]) as device:
        before = device.memory.copy()
        start(device, 3, 4)
        device.run_until_irq(1000)
        assert device.read_register(register("ERROR").offset) == SLVERR
        good = (device.memory[TARGET : TARGET + 96] == before[:96]).reshape(3, 4, 8).all(axis=2)
        assert np.argwhere(~good).tolist() == [[1, beat % 4]]


def test_faulty_addresses(tmp_path):
    with simulation(CONFIG, tmp_path, faults=[Fault(False, SLVERR, start=40, end=41)]) as device:
        before = device.memory.copy()
        start(device, 4, 4)
        device.run_until_irq(1000)
        same = (device.memory[TARGET : TARGET + 128] == before[:128]).reshape(4, 32).all(axis=1)
        assert same.tolist() == [True, False, True, True]


def test_beyond_the_memory(tmp_path):
    with simulation(CONFIG, tmp_path) as device:
        start(device, 1, 4, target=1 << 20)
        device.run_until_irq(1000)
        assert device.read_register(register("ERROR").offset) == DECERR


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_a_write_takes_effect_with_its_answer(tmp_path, stall):
    """Two bursts: memory changes in two cycles only, the second time as the copier gets its last answer."""
    slow = part(bytes_per_cycle=4, outstanding=8)  # 16 cycles a burst
    with simulation(CONFIG, tmp_path, slow, stall=stall, seed=3) as device:
        print("seed 3")
        target = device.memory[TARGET : TARGET + 128]
        start(device, 2, 8, phase=WRITE)
        changes, cycle = [], -1
        while device.cycles != cycle:  # until the interrupt
            cycle, before = device.cycles, target.copy()
            device.step(1)
            changes += [device.cycles] * bool((target != before).any())
        assert len(changes) == 2 and changes[1] - changes[0] >= 16
        assert changes[1] == cycle - 1  # the cycle after, the copier is done


def test_writes_are_answered_late(tmp_path):
    """The last write of a copy is answered later by the write latency, and nothing else changes."""
    ends = []
    for latency in (0, 50):
        with simulation(CONFIG, tmp_path, part(outstanding=8), write_latency=latency) as device:
            source = device.memory[: 4 * 4 * BEAT].copy()
            start(device, 4, 4)
            device.run_until_irq(1000)
            assert (device.memory[TARGET : TARGET + len(source)] == source).all()
            ends.append(device.cycles)
    assert ends[1] - ends[0] == 50


def test_unanswered_writes_can_not_be_read(tmp_path):
    """Bursts copied one burst further: all but the first read what a write that isn't answered writes."""
    size = 4 * BEAT
    with simulation(CONFIG, tmp_path, part(latency=200, outstanding=8)) as device:
        before = device.memory.copy()
        start(device, 12, 4, target=8 * size)
        device.run_until_irq(10_000)
        rows = device.memory[8 * size : 20 * size].reshape(12, size)
        assert (rows[:8] == before[: 8 * size].reshape(8, size)).all()
        old = before[8 * size : 12 * size].reshape(4, size)
        assert (rows[8:] == np.where(old == rows[:4], old, GARBAGE)).all()
        assert (rows[8:] == GARBAGE).mean() > 0.9
