"""Networks with ReLU6 and leaky ReLU on a machine that has them: against PyTorch, and golden against RTL."""

import contextlib
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.host.compiler.front_end import graph_of
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.islands.runtime import Moment
from adagp.host.program import disassemble
from adagp.host.training.network import Network
from adagp.spec.commands import CMode
from batches import steps_are_gradients, train_batch
from random_programs import DESIGNS
from scheduled_runs import HashedRun
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

TINY = DESIGNS["baseline"]
BATCH, IMAGE, N_CLASSES, MEMORY, RATE = 6, (2, 8, 8), 3, 4 << 20, 0.25


class Clamped(nn.Module):
    """Bounds and slopes after convolutions, additions and pools; results that fan out, and the network's own."""

    def __init__(self, last: nn.Module):
        super().__init__()
        self.first, self.second, self.third = nn.Conv2d(2, 5, 3, padding=1), nn.Conv2d(5, 5, 1), nn.Conv2d(5, 7, 3)
        self.six, self.leaky, self.low = nn.ReLU6(), nn.LeakyReLU(0.1), nn.Hardtanh(0.0, 0.3)
        self.head, self.last = nn.Linear(7, N_CLASSES), last

    def forward(self, x):
        x = self.low(self.first(x))
        x = self.leaky(self.second(x) + x)
        y = functional.max_pool2d(self.leaky(self.third(x)), 2)
        y = torch.clamp(y * 1.0, 0, 2) + self.leaky(y)
        z = functional.adaptive_avg_pool2d(self.six(y), 1).flatten(1)
        return self.last(self.head(z))


LASTS = {"plain": nn.Identity(), "leaky": nn.LeakyReLU(0.3), "clamped": nn.Hardtanh(0.0, 0.5)}


def made(last="plain", config=TINY):
    torch.manual_seed(7)
    module = Clamped(LASTS[last]).double().train()
    with torch.no_grad():
        module.first.weight *= 2
        module.head.weight *= 4
    rng = np.random.default_rng(5)
    images, labels = rng.uniform(-1, 1, (BATCH, *IMAGE)), rng.integers(0, N_CLASSES, BATCH)
    return module, Network(module, IMAGE, BATCH, config), images, labels


@pytest.mark.parametrize("last", LASTS)
def test_gradients_are_those_of_torch(last):
    module, network, images, labels = made(last)
    device = GoldenDevice(TINY, MEMORY)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    network.load_state(device, before)
    network.set_hyper(device, RATE, 0.0, 0.0)
    _, logits = train_batch(network, device, images, labels, calibrate=True, moment=Moment())
    twin = deepcopy(module)
    expected = twin(torch.from_numpy(images))
    nn.functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
    assert float((torch.from_numpy(logits) - expected.detach()).abs().max()) < 2e-3
    assert steps_are_gradients(twin, before, network.state_dict(device), RATE) == len(list(twin.parameters()))


def test_what_runs_where():
    """On the machine, fused where it alone uses a result; on the host where the machine has no such hardware."""
    _, network, _, _ = made()
    layers = network.compiled.graph.layers
    assert [(layer.kind.value, layer.bound, layer.slope) for layer in layers if layer.relu] == [
        ("conv", 0.3, 0), ("conv", 0.0, 6554), ("conv", 0.0, 6554), ("avgpool", 2.0, 0),
        ("avgpool", 0.0, 6554), ("avgpool", 6.0, 0),
    ]  # fmt: skip
    _, without, _, _ = made(config=replace(TINY, clamps=False))
    assert not any(layer.clamps or layer.relu for layer in without.compiled.graph.layers)
    host = [name for island in without.compiled.graph.islands for name in island.operators]
    assert {"hardtanh", "leaky_relu", "clamp"} <= {name.split("::")[-1] for name in host}


@pytest.mark.parametrize(
    "module",
    [nn.Hardtanh(), nn.Hardtanh(-1.0, 6.0), nn.LeakyReLU(-0.1), nn.LeakyReLU(1.5), nn.Hardtanh(0.5, 2.0)],
    ids=repr,
)
def test_others_stay_on_the_host(module):
    graph = graph_of(nn.Sequential(nn.Conv2d(2, 3, 1), module, nn.Conv2d(3, 2, 1)), (2, 4, 4), 2, TINY)
    assert len(graph.islands) == 1 and not any(layer.relu for layer in graph.layers)


def test_a_fan_in_is_masked_by_a_command_of_its_own():
    _, network, _, _ = made()
    commands = [line.command for line in network.compiled.program]
    masks = [c for c in commands if c.c_mode == CMode.MASK and (c.slope or c.bound_mantissa)]
    assert len(masks) > 2 and any(c.slope for c in masks) and any(c.bound_mantissa for c in masks)
    assert not any(c.c_mode == CMode.ADD_MASK and (c.slope or c.bound_mantissa) for c in commands)
    text = disassemble(network.compiled.program.bytes())
    assert "slope 0.100006" in text and "bound 39322*2^-17" in text


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_golden_and_simulated_rtl_train_alike(variant):
    """Batches of BP, and of GP where gradients are predicted; the memory stalls at random."""
    config, found = DESIGNS[variant], []
    stalling = {"memory_bytes": MEMORY, "limit": 20_000_000, "stall": 0.2, "seed": 3}
    for device in (GoldenDevice(config, MEMORY), SimDevice(config, **stalling)):
        with contextlib.closing(device):
            run = HashedRun(lambda: Clamped(nn.LeakyReLU(0.3)), IMAGE, BATCH, device, 7)
            found.append((run.go(), device.counters(0)["saturations"]))
    hashes = found[0][0]
    assert found[0] == found[1] and len(set(hashes)) == len(hashes) > 5
    assert run.trainer.progress.batches[2] == (4 if variant == "max" else 0)
