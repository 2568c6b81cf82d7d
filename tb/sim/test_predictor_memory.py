"""The predictor memory in the accelerator: weights go in and out through programs, past the memory port."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.gen.generated import generated
from adagp.host.compiler.predictor import PREDICTOR_LOAD, PREDICTOR_SAVE
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.network import Network
from adagp.sim.build import lint
from adagp.spec.presets import preset
from adagp.spec.registers import Status

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first

CONFIG = replace(preset("tiny"), variant="efficient")
MEMORY = 1 << 20
SEED = 31
EVALUATE = 3
NAMES = ("predictor.conv", "predictor.fc")


def test_lint():
    assert lint(generated(CONFIG)) == []


def copy(network, device, name):
    """Run a copy; what it has counted, which is also what the memory has seen."""
    before = device.simulation.dram_totals.to_dict()
    device.reset_counters()
    device.start(network.compiled.copies[name], EVALUATE)
    assert device.wait() == Status.DONE
    counters, after = device.counters(EVALUATE), device.simulation.dram_totals.to_dict()
    for total in ("read_bytes", "write_bytes"):
        assert counters[total] == after[total] - before[total]
    return counters


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_weights_in_and_out(stall):
    print(f"seed {SEED}")
    rng = np.random.default_rng(SEED)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.Flatten(), torch.nn.Linear(80, 7))
    network = Network(module, (3, 6, 6), 2, CONFIG, source="predicted")
    device = SimDevice(CONFIG, memory_bytes=MEMORY, limit=1_000_000, stall=stall, seed=SEED)
    network.install(device)
    arrays = {}
    for name in NAMES:
        tensor = network.tensors[f"{name}.staging"]
        arrays[name] = rng.integers(-0x7FFF, 0x8000, tensor.shape).astype(tensor.dtype)
        network.write(device, tensor.name, arrays[name])
    n_bytes = sum(array.nbytes for array in arrays.values())
    window, before = network.compiled.window.start, device.read(0, MEMORY)
    loaded = copy(network, device, PREDICTOR_LOAD)
    assert loaded["predictor_bytes"] == n_bytes > 2000 and loaded["write_bytes"] == 0
    assert (device.read(0, MEMORY) == before).all()
    for name in NAMES:
        network.write(device, f"{name}.staging", np.zeros_like(arrays[name]))
    saved = copy(network, device, PREDICTOR_SAVE)
    assert saved["write_bytes"] == n_bytes <= saved["predictor_bytes"]
    assert saved["read_bytes"] < loaded["read_bytes"]
    for name, array in arrays.items():
        assert (network.read(device, f"{name}.staging") == array).all()
    device.set_predictor_window(0)  # then the same addresses are those of memory, where nothing was written
    assert not device.read(window, CONFIG.predictor_bytes).any()
    assert copy(network, device, PREDICTOR_SAVE)["predictor_bytes"] == 0
    assert not any(network.read(device, f"{name}.staging").any() for name in NAMES)
