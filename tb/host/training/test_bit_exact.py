"""The generated Verilog and the golden model train to the same bits, on networks that nothing was tuned on."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.evaluation.benches.train import COMMAND_LINE, WITHOUT_GOLDEN
from adagp.gen.generated import generated
from adagp.gen.verilog import GATE_MACRO
from adagp.golden.state import COUNTED
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from adagp.rtl.lib.clock_gate import CELL
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from robustness.conditions import ungated
from small_networks import N_CLASSES, pools, strides
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

MEMORY = 1 << 20
SEED = 20
BYTES = replace(preset("tiny"), name="bytes", operand_width=8, acc_width=32, update_lanes=2)
TRAIN, EVALUATE = 0, 3

NETWORKS = {
    "strides": (1, (7, 11, 9), strides),
    "pools": (13, (3, 10, 13), pools),
    "linear": (13, (29,), lambda: nn.Sequential(
        nn.Linear(29, 17), nn.ReLU(), nn.Linear(17, 11, bias=False), nn.Linear(11, N_CLASSES), nn.ReLU(),
    )),
}  # fmt: skip


def setting(name, preset_name="tiny"):
    """A network with seeded weights, for :func:`train`."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    batch, shape, build = NETWORKS[name]
    module = build()
    config = BYTES if preset_name == BYTES.name else preset(preset_name)
    return Network(module, shape, batch, config), module.state_dict()


def evaluation(network, device):
    """A batch in the evaluation phase; returns logits."""
    network.write_input(device, np.random.default_rng(SEED).random((network.batch, *network.input_shape)))
    network.start(device, EVALUATE)
    assert device.wait() & Status.HOST
    logits_NK = network.read_logits(device)
    device.resume()
    assert device.wait() & Status.DONE
    return logits_NK


def train(network, state, device, batches=3, evaluate=False):
    """Train seeded batches, the first of them calibrating; yields what the host sees of each."""
    print(f"seed {SEED}")
    rng = np.random.default_rng(SEED)
    network.load_state(device, state)
    network.set_hyper(device, 0.07, 0.9, 0.002)
    for step in range(batches):
        if evaluate and step:
            evaluation(network, device)
        network.write_input(device, rng.uniform(-1, 1, (network.batch, *network.input_shape)))
        network.start(device, TRAIN, calibrate=step == 0)
        assert device.wait() & Status.HOST
        logits_NK = network.read_logits(device)
        labels_N = rng.integers(0, N_CLASSES, network.batch)
        network.write_loss_gradient(device, softmax_cross_entropy(logits_NK, labels_N)[1])
        device.resume()
        assert device.wait() & Status.DONE
        counters = device.counters(TRAIN)
        yield {
            "memory": device.read(0, network.compiled.plan.n_bytes),
            "exponents": [device.exponents(tensor.number) for tensor in network.tensors.values() if tensor.number >= 0],
            "logits": logits_NK.tolist(),
            "counters": {name: counters[name] for name in COUNTED},
            "hash": network.weights_hash(device),
        }


def first_difference(network, expected, found):
    """Name, element, expected and found value of the first element that differs, for the assertion's message."""
    for tensor in network.tensors.values():
        pair = [
            np.ascontiguousarray(memory[tensor.address : tensor.address + tensor.n_bytes]).view(tensor.dtype)
            for memory in (expected, found)
        ]
        if (pair[0] != pair[1]).any():
            element = int(np.argmax(pair[0] != pair[1]))
            return tensor.name, np.unravel_index(element, tensor.shape), int(pair[0][element]), int(pair[1][element])
    places = np.flatnonzero(expected != found)
    return f"byte {places[0]}" if len(places) else None


def reconcile(device):
    """The accelerator's counters against the memory's totals, and against each other."""
    counters, totals = device.counters(TRAIN), device.simulation.dram_totals
    assert (counters["read_bytes"], counters["write_bytes"]) == (totals.read_bytes, totals.write_bytes)
    assert counters["write_bytes"] > 0
    causes = [counters[name] for name in counters if name.startswith("stall_")]
    assert counters["array_cycles"] + sum(causes) == counters["cycles"] > 0


@pytest.mark.parametrize(("name", "preset_name", "stall"), [
    *((name, "tiny", 0.0) for name in NETWORKS), *((name, "tiny", 0.3) for name in NETWORKS),
    pytest.param("pools", "bytes", 0.2, marks=pytest.mark.slow),  # units' benches have bytes; a simulator of its own
    pytest.param("pools", "ecp5", 0.2, marks=pytest.mark.slow),  # tiny but for deeper memories
    pytest.param("strides", "paper", 0.1, marks=pytest.mark.slow),  # test_designs has this array, with a predictor
])  # fmt: skip
def test_simulation_equals_golden(name, preset_name, stall):
    network, state = setting(name, preset_name)
    initial = GoldenDevice(network.config, MEMORY)
    network.load_state(initial, state)
    hashes = [network.weights_hash(initial)]
    golden = GoldenDevice(network.config, MEMORY)
    device = SimDevice(network.config, memory_bytes=MEMORY, limit=20_000_000, stall=stall, seed=SEED)
    for expected, found in zip(train(network, state, golden), train(network, state, device), strict=True):
        reconcile(device)
        assert first_difference(network, expected.pop("memory"), found.pop("memory")) is None
        assert found == expected and found["counters"]["macs"] > 0
        hashes.append(found["hash"])
    device.close()
    assert len(set(hashes)) == 4  # every batch changed the weights


def test_evaluation_between_batches_changes_nothing():
    network, state = setting("pools")
    device = SimDevice(network.config, memory_bytes=MEMORY, limit=20_000_000)
    golden = GoldenDevice(network.config, MEMORY)
    plain = [batch["hash"] for batch in train(network, state, device)]
    assert plain == [batch["hash"] for batch in train(network, state, device, evaluate=True)]
    assert plain == [batch["hash"] for batch in train(network, state, golden, evaluate=True)]
    logits_NK = evaluation(network, device)
    assert np.ptp(logits_NK) > 0
    np.testing.assert_array_equal(logits_NK, evaluation(network, golden))
    device.close()


def test_simulation_trains_without_the_golden_model(tmp_path):
    options = ("--preset", "tiny", "--batch", "4", "--epochs", "1", "--train-images", "8", "--test-images", "4")

    def run(device, code):
        command = [sys.executable, "-c", code, "train", "--device", device, "-o", str(tmp_path / device), *options]
        return subprocess.run(command, capture_output=True, text=True)

    refused = run("golden", WITHOUT_GOLDEN + COMMAND_LINE)
    assert refused.returncode and "is out of bounds" in refused.stderr
    hashes = []
    for device, code in (("sim", WITHOUT_GOLDEN + COMMAND_LINE), ("golden", COMMAND_LINE)):
        result = run(device, code)
        assert result.returncode == 0, result.stderr
        hashes.append(json.loads((tmp_path / device / "summary.json").read_text())["weights_hash"])
    assert hashes[0] == hashes[1]


def test_a_fault_in_the_verilog_is_seen(tmp_path):
    """Rounding in lane 0 of the epilogue: of results past a half, only the odd ones still go up."""
    network, state = setting("strides")
    module = re.escape(r"module \adagp.accelerator.core.drain.epilogue.lane0.scale_x ")
    good = generated(network.config).read_text()
    tie = rf"({module}.*?assign \S+ += \S+ +)\|( \S+ \[1\];)"
    faulty, n_faults = re.subn(tie, r"\1&\2", good, count=1, flags=re.DOTALL)
    assert n_faults == 1 and len(faulty) == len(good)
    path = tmp_path / "top.v"
    path.write_text(faulty)
    device = SimDevice(network.config, memory_bytes=MEMORY, limit=20_000_000, top=path)
    golden = GoldenDevice(network.config, MEMORY)
    hashes = [[batch["hash"] for batch in train(network, state, machine, batches=1)] for machine in (golden, device)]
    device.close()
    assert hashes[0] != hashes[1]


def test_clock_gates_change_nothing():
    """Not a bit and not a cycle, against clocks that always run."""
    network, state = setting("pools")
    gated = generated(network.config).read_text()
    assert gated.count(f"  {CELL} ") > 10 and f"`ifdef {GATE_MACRO}" in gated
    found = []
    for top in (None, ungated(network.config)):
        device = SimDevice(network.config, memory_bytes=MEMORY, limit=20_000_000, stall=0.1, seed=SEED, top=top)
        hashes = [batch["hash"] for batch in train(network, state, device, batches=2)]
        found.append((hashes, device.counters(TRAIN), device.simulation.cycles))
        device.close()
    assert found[0] == found[1] and found[0][1]["macs"] > 0
