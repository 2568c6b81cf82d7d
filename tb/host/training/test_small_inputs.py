"""The first step of a network whose inputs are small, which the calibrating batch takes, beside float64."""

import numpy as np
import pytest
import torch
from adagp.golden.state import COUNTED
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from adagp.spec.presets import preset
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SEED, BATCH, INPUTS, CLASSES, RATE = 1, 2, 6, 3, 0.1
CONFIG, MEMORY = preset("tiny"), 1 << 20


def small(scale):
    """A network all of whose activations are about ``scale``, with inputs and labels."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    print(f"seed {SEED}")
    module = nn.Sequential(nn.Linear(INPUTS, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    with torch.no_grad():
        module[0].bias *= scale
    x = np.random.default_rng(SEED).uniform(0, scale, (BATCH, INPUTS))
    return module, x, np.array([0, 2])


def first_step(device, module, x, labels):
    """The network's weights after a calibrating batch, and what the device counted."""
    network = Network(module, (INPUTS,), BATCH, CONFIG)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, RATE, 0.0, 0.0)
    network.write_input(device, x)
    network.start(device, 0, calibrate=True)
    device.wait()
    network.write_loss_gradient(device, softmax_cross_entropy(network.read_logits(device), labels)[1])
    device.resume()
    device.wait()
    counters = device.counters(0)
    return network.state_dict(device), {name: counters[name] for name in COUNTED}


@pytest.mark.parametrize("scale", [1, 0.03, 0.01, 1e-3])
def test_the_first_step_of_the_last_bias(scale):
    module, x, labels = small(scale)
    before = module[2].bias.detach().double()
    state, counted = first_step(GoldenDevice(CONFIG, MEMORY), module, x, labels)
    module.double()
    F.cross_entropy(module(torch.tensor(x)), torch.tensor(labels)).backward()
    true = -RATE * module[2].bias.grad
    step = torch.as_tensor(state["2.bias"], dtype=torch.float64) - before
    assert (step - true).abs().max() < 2e-4 * true.abs().max()
    assert counted["saturations"] == 0 < counted["macs"]


@pytest.mark.parametrize("scale", [0.01, 1e-3])
def test_simulation_equals_golden(scale):
    module, x, labels = small(scale)
    state, counted = first_step(GoldenDevice(CONFIG, MEMORY), module, x, labels)
    device = SimDevice(CONFIG, memory_bytes=MEMORY, limit=20_000_000)
    found, found_counted = first_step(device, module, x, labels)
    device.close()
    assert found_counted == counted and found.keys() == state.keys() and len(state) == 4
    assert all(np.array_equal(found[name], state[name]) for name in state)
