"""The native driver: registers, copying under stalls, totals, errors, building."""

import multiprocessing
import subprocess
import sys
import time

import numpy as np
import pytest
from adagp.gen import cache
from adagp.sim import IDEAL, BuildError, SimulationError
from adagp.sim.coverage import LINE, TOGGLE
from adagp.spec.presets import preset
from adagp.spec.registers import register
from memory_traffic_dut import READ, TARGET, WRITE, simulation, start


@pytest.mark.parametrize("name", ["tiny", "paper"])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_copy(name, stall, tmp_path):
    config = preset(name)
    beats = 4096 // config.beat_bytes // 4
    bursts = 101
    with simulation(config, tmp_path, stall=stall, seed=5) as device:
        print("seed 5")
        before = device.memory.copy()
        start(device, bursts, beats)
        cycles = device.run_until_irq(100_000)
        size = bursts * beats * config.beat_bytes
        assert cycles >= bursts * beats > 0
        assert (device.memory[TARGET : TARGET + size] == before[:size]).all()
        assert (device.memory[:TARGET] == before[:TARGET]).all()
        assert (device.memory[TARGET + size :] == before[TARGET + size :]).all()
        assert device.dram_totals.to_dict() == {
            "read_bytes": size, "write_bytes": size, "read_beats": bursts * beats, "write_beats": bursts * beats,
            "read_bursts": bursts, "write_bursts": bursts,
        }  # fmt: skip
        assert device.run_until_irq(0) == 0


def test_two_widths_in_one_process(tmp_path):
    with (
        simulation(preset("tiny"), tmp_path) as narrow,
        simulation(preset("paper"), tmp_path) as wide,
    ):
        for device in (narrow, wide):
            start(device, 8, 16)
        for device in (narrow, wide):
            device.run_until_irq(10_000)
            size = 128 * device.config.beat_bytes
            assert (device.memory[TARGET : TARGET + size] == device.memory[:size]).all()
            assert device.dram_totals.read_bytes == size


def test_simulations_of_one_design_end_in_any_order():
    script = (
        "from adagp.sim import Simulation; from adagp.spec.presets import preset; "
        "one, two, three = (Simulation(preset('tiny')) for _ in range(3)); "
        "three.close(); one.step(100); one.close(); two.close(); print('all closed')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert ran.stdout == "all closed\n", ran.stderr


def test_strobes(tmp_path):
    config = preset("tiny")
    with simulation(config, tmp_path) as device:
        before = device.memory.copy()
        start(device, 3, 4, phase=WRITE)
        device.run_until_irq(1000)
        beats = before[TARGET : TARGET + 96].reshape(12, 8)
        for index in range(12):  # the copier writes 12, 11, ... with strobes on bytes 0 and 2
            beats[index, 0], beats[index, 2] = 12 - index, 0
        assert (device.memory == before).all()
        assert device.dram_totals.write_bytes == 24


def test_registers(tmp_path):
    with simulation(preset("tiny"), tmp_path) as device:
        device.write_register(register("PROGRAM").offset, 0x1234_5680)
        assert device.read_register(register("PROGRAM").offset) == 0x1234_5680
        with pytest.raises(SimulationError, match="register 0x800 refused with response 2"):
            device.write_register(0x800, 0)


def test_a_design_without_units_has_no_events(tmp_path):
    with simulation(preset("tiny"), tmp_path) as device:
        with pytest.raises(SimulationError, match=r"no recording: the design has no core\.sequencer\.reset"):
            device.record_events()
        start(device, 8, 16)
        device.run_until_irq(10_000)
        assert device.events.size == 0


def test_limit_names_the_state(tmp_path):
    calls = []
    with simulation(preset("tiny"), tmp_path) as device:
        with pytest.raises(SimulationError, match=r"no interrupt within 250000 cycles: STATUS .* ERROR NONE"):
            device.run_until_irq(250_000, progress=calls.append)
        assert calls == [100_000, 200_000, 250_000]


def test_protocol_violation(tmp_path):
    refused = pytest.raises(SimulationError, match="AXI protocol violation: burst with beats narrower")
    with simulation(preset("tiny"), tmp_path) as device, refused:
        start(device, 1, 4, misbehave=1)
        device.run_until_irq(1000)


def test_burst_across_a_page(tmp_path):
    refused = pytest.raises(SimulationError, match="burst across a 4 KiB page")
    with simulation(preset("tiny"), tmp_path) as device, refused:
        start(device, 1, 4, source=4096 - 16)
        device.run_until_irq(1000)


def test_assertions_only_in_debug(tmp_path):
    with simulation(preset("tiny"), tmp_path) as device:
        start(device, 1, 4, misbehave=2)
        assert device.run_until_irq(1000) > 0
    with simulation(preset("tiny"), tmp_path, debug=True) as device, pytest.raises(SimulationError, match="assertion"):
        start(device, 1, 4, misbehave=2)
        device.run_until_irq(1000)


def test_built_once(tmp_path, capfd):
    for _ in range(2):
        with simulation(preset("tiny"), tmp_path, IDEAL) as device:
            start(device, 1, 4, phase=READ)
            device.run_until_irq(1000)
        out = capfd.readouterr().err
    assert out == ""


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match="needs a C\\+\\+ compiler and no-such-compiler was not found: install g"):
        simulation(preset("tiny"), tmp_path)


def test_an_unknown_level_of_optimisation(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_OPTIMISATION", "fast")
    with pytest.raises(BuildError, match=r"^ADAGP_OPTIMISATION = 'fast' must be one of -O0, -O1, -O2, -O3$"):
        simulation(preset("tiny"), tmp_path)


def _make(queue):
    with cache.entry("thing") as (path, scratch):
        if scratch:
            time.sleep(0.3)
            (scratch / "out").write_text("made")
            (scratch / "out").rename(path)
        queue.put((scratch is not None, path.read_text()))


def test_two_processes_build_one_entry(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [context.Process(target=_make, args=(queue,)) for _ in range(3)]
    for process in processes:
        process.start()
    results = [queue.get(timeout=20) for _ in processes]
    for process in processes:
        process.join()
    assert sorted(results) == [(False, "made"), (False, "made"), (True, "made")]
    assert not list(tmp_path.glob("build-*"))


def test_imports_neither_golden_nor_torch():
    code = "import sys, adagp.sim; print([m for m in sys.modules if m == 'torch' or m.startswith('adagp.golden')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_log_of_bursts(tmp_path, stall):
    config = preset("tiny")
    with simulation(config, tmp_path, stall=stall, seed=6) as device:
        print("seed 6")
        device.log_bursts(1000)
        start(device, 20, 4)
        device.run_until_irq(10_000)
        bursts = device.bursts
        assert len(bursts) == 40
        for write, target in ((0, 0), (1, TARGET)):
            mine = bursts[bursts["write"] == write]
            assert mine["addr"].tolist() == [target + 4 * config.beat_bytes * i for i in range(20)]
            assert (mine["beats"] == 4).all() and not mine["response"].any()
            for name in ("accepted", "first", "last"):
                assert (np.diff(mine[name]) > 0).all()
            assert (mine["offered"] <= mine["accepted"]).all() and (mine["accepted"] < mine["first"]).all()
            assert (mine["last"] - mine["first"] >= (0 if write else 3)).all() and mine["last"].max() <= device.cycles
        device.log_bursts(3)
        start(device, 20, 4)
        device.run_until_irq(10_000)
        assert len(device.bursts) == 3 and device.bursts["last"].all()


def test_reset_forgets_everything_under_way(tmp_path):
    with simulation(preset("tiny"), tmp_path, stall=0.3, seed=8) as device:
        print("seed 8")
        before = device.memory.copy()
        device.log_bursts(1000)
        start(device, 50, 4)
        device.step(70)
        assert not device.bursts["last"].all()
        device.reset(2)
        written = device.memory.copy()
        device.step(200)
        assert (device.memory == written).all() and device.read_register(register("PROGRAM").offset) == 0
        device.memory[:] = before
        start(device, 50, 4)
        device.run_until_irq(10_000)
        size = 50 * 4 * device.config.beat_bytes
        assert (device.memory[TARGET : TARGET + size] == before[:size]).all()
        assert (device.memory[TARGET + size :] == before[TARGET + size :]).all()


def test_a_closed_simulation_says_so(tmp_path):
    with simulation(preset("tiny"), tmp_path) as device:
        device.step(3)
        assert device.cycles == 3
    for use in (lambda: device.cycles, lambda: device.dram_totals, lambda: device.step(1)):
        with pytest.raises(SimulationError, match="the simulation is closed"):
            use()


def test_counts_of_another_simulator_are_refused(tmp_path):
    counts = np.zeros(100, np.uint64)
    with pytest.raises(ValueError, match=r"room for 100 counters, the simulator of \S+/top\.v has \d{4}"):
        simulation(preset("tiny"), tmp_path, coverage=((LINE, TOGGLE), counts))
