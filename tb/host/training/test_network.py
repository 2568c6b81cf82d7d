"""Networks on the golden device: training against torch in float64, state in and out, refusals."""

import numpy as np
import pytest
import torch
from adagp.host.compiler.lowering import LoweringError
from adagp.host.compiler.values import Input
from adagp.host.devices.device import DeviceError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.network import Network
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from batches import train_batch
from torch import nn

TINY = preset("tiny")
MEMORY = 1 << 20
SEED = 3
EVALUATION = 3

NETWORKS = {
    "plain": ((2, 8, 8), lambda: nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 6, (3, 2), padding=(1, 0), bias=False),
        nn.AvgPool2d(3, 2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 3),
    )),
    "strided": ((3, 9, 7), lambda: nn.Sequential(
        nn.ReLU(), nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.MaxPool2d(3, 2, padding=1), nn.ReLU(),
        nn.Conv2d(6, 3, (3, 2)), nn.Flatten(),
    )),
    "features": ((7,), lambda: nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3), nn.ReLU())),
}  # fmt: skip


def setting(name, batch=16):
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    shape, build = NETWORKS[name]
    module = build().double()
    images = np.random.default_rng(SEED).uniform(-1, 1, (batch, *shape))
    return module, Network(module, shape, batch, TINY), images, np.arange(batch) % 3


@pytest.mark.parametrize("name", NETWORKS)
def test_training_on_the_golden_model_follows_torch(name):
    module, network, images, labels = setting(name)
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.05, 0.9, 0.01)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    losses = []
    for step in range(8):
        loss, logits = train_batch(network, device, images, labels, calibrate=step == 0)
        expected = module(torch.from_numpy(images))
        np.testing.assert_allclose(logits, expected.detach().numpy(), atol=2e-4)
        optimiser.zero_grad()
        nn.functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
        optimiser.step()
        losses.append(loss)
    state = network.state_dict(device)
    assert state.keys() == module.state_dict().keys()
    for key, value in module.state_dict().items():
        assert state[key].shape == value.shape
        np.testing.assert_allclose(state[key], value, atol=2e-4)
    assert losses[-1] < losses[0]
    counters = device.counters(0)
    assert counters["saturations"] == 0 < counters["macs"]
    assert counters["commands"] == 8 * len(network.program)


def test_weights_survive_load_and_state_dict():
    module, network, *_ = setting("plain")
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    for key, value in network.state_dict(device).items():
        np.testing.assert_allclose(value, module.state_dict()[key], atol=2.0**-30)


def test_a_snapshot_goes_on_with_the_same_bits():
    module, network, images, labels = setting("plain")
    one, other = GoldenDevice(TINY, MEMORY), GoldenDevice(TINY, MEMORY)
    network.load_state(one, module.state_dict())
    network.set_hyper(one, 0.1, 0.9, 0)
    train_batch(network, one, images, labels, calibrate=True)
    network.restore(other, network.snapshot(one))
    network.set_hyper(other, 0.1, 0.9, 0)
    before = network.weights_hash(one)
    assert before == network.weights_hash(other)
    for device in (one, other):
        for _ in range(3):
            train_batch(network, device, images, labels)
    assert network.weights_hash(one) == network.weights_hash(other) != before


def test_evaluation_changes_neither_weights_nor_exponents():
    module, network, images, labels = setting("plain")
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.1, 0.9, 0)
    train_batch(network, device, images, labels, calibrate=True)
    before = network.snapshot(device)
    network.write_input(device, images / 100)
    network.start(device, EVALUATION)
    device.wait()
    expected = network.read_logits(device)
    device.resume()
    assert device.wait() & Status.DONE
    after = network.snapshot(device)
    assert all(np.array_equal(before[name], after[name]) for name in before) and len(before) > 0
    assert np.ptp(expected) > 0


def test_errors_name_the_layer():
    module, network, images, _ = setting("plain")
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    device.set_regions([])
    network.write_input(device, images)
    network.start(device, 0)
    with pytest.raises(DeviceError, match=r"WRITE_REGION at command 1  forward +0\.Conv2d"):
        device.wait()


def test_refused_inputs_and_devices():
    _, network, images, _ = setting("plain")
    device = GoldenDevice(TINY, MEMORY)
    with pytest.raises(ValueError, match=r"must have the shape \(16, 2, 8, 8\), not \(5, 2, 8, 8\)"):
        network.write_input(device, images[:5])
    with pytest.raises(ValueError, match="exceeds input_max = 1"):
        network.write_input(device, images * 3)
    with pytest.raises(ValueError, match="no number 1"):
        network.write_input(device, images, entry=1)
    with pytest.raises(DeviceError, match="bytes of memory, the device has 1024"):
        network.install(GoldenDevice(TINY, 1024))
    with pytest.raises(DeviceError, match="compiled for tiny, the device is paper"):
        network.install(GoldenDevice(preset("paper"), MEMORY))
    with pytest.raises(TypeError, match="config is 'tiny', and must be a Config"):
        Network(nn.Linear(4, 2), (4,), 2, "tiny")
    with pytest.raises(LoweringError, match=r"from a batch \[2, 2, 1, 8, 8\]: RuntimeError: Expected 3D"):
        Network(nn.Sequential(nn.Conv2d(1, 2, 3), nn.GELU()), [Input((2, 1, 8, 8))], 2, TINY)


def test_tensors_will_do_as_inputs():
    _, network, images, _ = setting("plain")
    stored = []
    for given in (images, torch.from_numpy(images), [torch.from_numpy(images)]):
        device = GoldenDevice(TINY, MEMORY)
        network.write_input(device, given)
        stored.append(device.read(network.tensors["input"].address, network.compiled.entry_bytes))
    assert stored[0].any() and all((each == stored[0]).all() for each in stored)
