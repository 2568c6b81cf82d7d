"""A dropout that evaluation has too, beside one of training alone."""

import numpy as np
import pytest
import torch
from adagp.host.compiler.lowering import Kind
from adagp.host.devices.golden import GoldenDevice
from adagp.host.islands.runtime import Moment
from adagp.host.training.inference import predict
from adagp.host.training.network import Network
from batches import train_batch
from random_programs import DESIGNS
from torch import nn
from torch.nn import functional

BASE = DESIGNS["baseline"]
BATCH, IMAGE, N_CLASSES, MEMORY, SEED = 6, (2, 8, 8), 3, 4 << 20, 7


class Pair(nn.Module):
    """A dropout that evaluation has too, and after it one of training."""

    def __init__(self, rate):
        super().__init__()
        self.first, self.head, self.rate = nn.Conv2d(2, 4, 1), nn.Linear(256, N_CLASSES), rate

    def forward(self, x):
        x = functional.dropout(self.first(x).flatten(1), 0.25, True)
        return self.head(functional.dropout(x, self.rate, self.training))


@pytest.mark.parametrize("rate, on_device", [(0.5, (1, 2)), (0.25, (2, 1))])
def test_evaluation_drops_by_the_first_alone(rate, on_device, monkeypatch):
    """The machine has the second and both layers; if the two look alike, both of them and not the last layer."""
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    module = Pair(rate).double().train()
    images = np.random.default_rng(SEED).uniform(-1, 1, (BATCH, *IMAGE))
    network, device = Network(module, IMAGE, BATCH, BASE), GoldenDevice(BASE, MEMORY)
    kinds = [layer.kind for layer in network.layers]
    assert (kinds.count(Kind.DROPOUT), kinds.count(Kind.GEMM)) == on_device
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.0, 0.0, 0.0)
    train_batch(network, device, images, np.arange(BATCH) % N_CLASSES, calibrate=True)
    draw, seeds = Moment.draw, []
    monkeypatch.setattr(Moment, "draw", lambda *place: seeds.append(draw(*place)) or seeds[-1])
    found = predict(network, device, images)
    torch.manual_seed(seeds[0])
    expected = module.eval()(torch.from_numpy(images)).detach().numpy()
    assert len(seeds) == 1 and np.ptp(expected) > 0.1
    np.testing.assert_allclose(found, expected, atol=3e-3)
