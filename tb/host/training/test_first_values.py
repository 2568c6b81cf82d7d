"""The values that a run begins with, worked out by hand."""

import numpy as np
import pytest
import torch
from adagp.golden.update import Hyper
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.network import Network
from adagp.host.training.settings import TrainSettings
from torch import nn

INPUT, CLASSES, BATCH = 4, 2, 1


def loaded(source, variant="low"):
    """A layer whose weights are 0.75 and the golden device it has been loaded to."""
    config = TrainSettings(preset="tiny", variant=variant, **({"gradient_source": source} if source else {})).config
    module = nn.Sequential(nn.Linear(INPUT, CLASSES))
    with torch.no_grad():
        module[0].weight.fill_(0.75)
    network, device = Network(module, (INPUT,), BATCH, config, source=source), GoldenDevice(config, 1 << 20)
    network.load_state(device, module.state_dict())
    return network, device


def exponents(network, device, name):
    return device.exponents(network.tensors[name].number)


def test_hyper_parameters():
    """0.9 and 0.999 of 65536 are 58982.4 and 65470.464; epsilon is one LSB of a root."""
    network, device = loaded("predicted")
    network.set_hyper(device, 0.5, 0.9, 0.0)
    network.set_adam(device, 0.25)
    assert device.machine.hyper[:9] == [
        Hyper(1, -1), Hyper(58982 // 2, -15), Hyper(0, 0),
        Hyper(1, -2), Hyper(58982, -16), Hyper(6554, -16), Hyper(65470, -16), Hyper(66, -16), Hyper(1, 0),
    ]  # fmt: skip


def test_weights_have_a_bit_of_headroom():
    """0.75 takes 14 of 15 bits: 0.75 * 2^14 = 12288."""
    network, device = loaded(None, "baseline")
    name = next(name for name in network.tensors if name.endswith(".weight"))
    assert exponents(network, device, name) == (-14, -14)
    assert np.all(network.read(device, name)[:, :-1] == 12288)


def test_predictions_have_five_bits_above_one():
    """1 is 2^10 of 2^15."""
    network, device = loaded("predicted")
    assert exponents(network, device, "predictor.prediction") == (-10, None)


@pytest.mark.parametrize(("source", "shift"), [("mean", -3), ("last", 0)])
def test_kept_gradients(source, shift):
    network, device = loaded(source)
    kept = [name for name in network.tensors if name.endswith(".kept")]
    assert len(kept) == 1
    assert exponents(network, device, kept[0]) == (-24, -24)
    assert exponents(network, device, "kept.shift") == (shift, None)
