"""Networks of the real torchvision: a batch trains on golden, and the weights go back into stock models."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.spec.config import SWITCHES
from adagp.spec.phases import BP, WARMUP
from adagp.spec.presets import preset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # they need the extra models

SHAPE, CLASSES, BATCH = (3, 32, 32), 10, 4


def batch(network, device, x, phase, calibrate=False):
    network.write_input(device, x)
    network.start(device, phase, calibrate=calibrate)
    network.wait(device)
    logits = network.read_logits(device)
    network.write_loss_gradient(device, (logits - logits.mean(1, keepdims=True)) / BATCH)
    device.resume()
    network.wait(device)


@pytest.mark.parametrize("name", ["torchvision:resnet18"])
def test_a_trained_batch_goes_back_into_the_stock_model(name):
    config = replace(preset("paper"), **dict.fromkeys(SWITCHES, True))
    module = build_model(name, SHAPE, CLASSES, 0)
    network, device = Network(module, SHAPE, BATCH, config), GoldenDevice(config)
    assert not network.compiled.graph.islands
    before = {key: value.double() for key, value in module.state_dict().items()}
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 1e-3, 0.9, 5e-4)
    x = np.random.default_rng(1).random((BATCH, *SHAPE), np.float32)
    batch(network, device, x, WARMUP, calibrate=True)
    batch(network, device, x, BP)
    state = network.state_dict(device)
    assert all((state[key] != before[key]).any() for key in before)
    from torchvision import models  # after the network, as it may lack its compiled operators

    stock = models.get_model(name.partition(":")[2], num_classes=CLASSES).double()
    stock.load_state_dict(state)
    module.double().load_state_dict(state)
    with torch.no_grad():
        ours, theirs = (each.eval()(torch.as_tensor(x).double()) for each in (module, stock))
    assert ours.abs().max() > 0 and torch.equal(ours, theirs)
