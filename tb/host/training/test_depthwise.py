"""Networks with depthwise convolutions: golden against PyTorch in float64, and simulated RTL against golden."""

import contextlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from adagp.host.compiler.costs import costs
from adagp.host.compiler.lowering import Kind, LoweringError, lower
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.spec.opcodes import DEPTHWISE
from batches import steps_are_gradients, train_batch
from random_programs import DESIGNS
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

TINY = DESIGNS["baseline"]
PREDICTING = [variant for variant, config in DESIGNS.items() if config.predicts]
BATCH, IMAGE, N_CLASSES, MEMORY = 5, (2, 9, 8), 4, 8 << 20
SEED = 3
WARMUP, BP, GP = 0, 1, 2


class Residual(nn.Module):
    """Depthwise convolutions with and without biases, of strides 1 and 2, on a path with an addition."""

    def __init__(self, channels):
        super().__init__()
        self.expand = nn.Conv2d(channels, 3 * channels, 1)
        self.inner = nn.Conv2d(3 * channels, 3 * channels, 3, padding=1, groups=3 * channels, bias=False)
        self.project = nn.Conv2d(3 * channels, channels, 1)
        self.last = nn.Conv2d(channels, channels, (3, 5), stride=2, padding=(1, 2), groups=channels)

    def forward(self, x):
        y = torch.relu(self.inner(torch.relu(self.expand(x))))
        return torch.relu(self.last(x + self.project(y)))


def build():
    torch.manual_seed(SEED)
    rest = nn.Flatten(), nn.Linear(6 * 5 * 4, N_CLASSES)
    return nn.Sequential(nn.Conv2d(IMAGE[0], 6, 3, padding=1), nn.ReLU(), Residual(6), *rest).double().train()


def batches(network, count):
    print(f"seed {SEED}")
    rng = np.random.default_rng(SEED)
    for _ in range(count):
        yield rng.uniform(-1, 1, (network.batch, *network.input_shape)), rng.integers(0, N_CLASSES, network.batch)


def test_gradients_are_those_of_torch():
    module = build()
    network = Network(module, IMAGE, BATCH, TINY)
    assert [layer.name for layer in network.layers if layer.kind is Kind.DEPTHWISE] == [
        "2.inner.Conv2d",
        "2.last.Conv2d",
    ]
    assert not network.compiled.graph.islands
    device = GoldenDevice(TINY, MEMORY)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    network.load_state(device, before)
    for name, tensor in network.state_dict(device).items():
        torch.testing.assert_close(tensor, before[name], atol=1e-6, rtol=1e-6)
    network.set_hyper(device, 0.25, 0.0, 0.0)
    (images, labels) = next(batches(network, 1))
    _, logits = train_batch(network, device, images, labels, calibrate=True)
    expected = module(torch.from_numpy(images))
    nn.functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
    torch.testing.assert_close(torch.from_numpy(logits), expected.detach(), atol=5e-3, rtol=5e-3)
    assert steps_are_gradients(module, before, network.state_dict(device), 0.25, 0.05) == len(before) == 11


def run(network, state, device, phases):
    """The weights' hash and the state after each batch."""
    network.load_state(device, state)
    network.set_hyper(device, 0.07, 0.9, 0.002)
    if network.config.predicts:
        network.set_adam(device, 0.01)
    for number, (phase, batch) in enumerate(zip(phases, batches(network, len(phases)), strict=True)):
        train_batch(network, device, *batch, number == 0, phase)
        yield network.weights_hash(device), network.state_dict(device)


def alike(make, state, phases):
    """Run golden and simulated RTL, each with a network of ``make``; return their states, which must be the same."""
    networks, seen = (make(), make()), []
    config = networks[0].config
    with contextlib.closing(SimDevice(config, memory_bytes=MEMORY, limit=50_000_000, stall=0.1, seed=SEED)) as device:
        devices = GoldenDevice(config, MEMORY), device
        pairs = (run(network, state, each, phases) for network, each in zip(networks, devices, strict=True))
        for expected, found in zip(*pairs, strict=True):
            assert found[0] == expected[0]
            seen.append(found)
    assert len({weights for weights, _ in seen}) == len(seen) == len(phases)
    return [state for _, state in seen]


def test_simulated_rtl_trains_as_golden():
    module = build()
    alike(lambda: Network(module, IMAGE, BATCH, TINY), module.state_dict(), [WARMUP] * 3)


@pytest.mark.parametrize("variant", PREDICTING)
def test_gp_batches_train_depthwise_layers(variant):
    """Golden and RTL alike; as of any layer, weights move by predictions and biases stay."""
    module, config = build(), DESIGNS[variant]
    made = []

    def make():
        made.append(Network(module, IMAGE, BATCH, config, source="predicted"))
        return made[-1]

    states = alike(make, module.state_dict(), [WARMUP, WARMUP, BP, GP, GP, BP])
    assert made[0].compiled.source.unpredicted == {}
    for name in ("2.inner.weight", "2.last.weight", "2.last.bias", "0.weight"):
        moved = [not torch.equal(one[name], other[name]) for one, other in pairwise(states)]
        assert moved == [True, True, name != "2.last.bias", name != "2.last.bias", True]


def test_a_layer_with_more_results_than_a_sum_holds_stands_still_in_gp():
    module, config = build(), replace(DESIGNS["max"], acc_width=42, batch_norm=False)
    network = Network(module, IMAGE, batch := 40, config, source="predicted")
    most = config.max_reduction
    assert batch * 9 * 8 == 2880 > most > batch * 5 * 4
    why = f"2880 results of a filter, the predictor of tiny is for {most}"
    assert network.compiled.source.unpredicted == {"2.inner.Conv2d": why}
    device = GoldenDevice(config, MEMORY)
    states = [state for _, state in run(network, module.state_dict(), device, [WARMUP, BP, GP, BP])]
    for name in ("2.inner.weight", "2.last.weight"):
        moved = [not torch.equal(one[name], other[name]) for one, other in pairwise(states)]
        assert moved == [True, name == "2.last.weight", True]


@pytest.mark.parametrize("variant", [
    pytest.param("baseline", marks=pytest.mark.slow),  # of max's batches all but one
    "max",
])  # fmt: skip
def test_mobilenet_trains(variant):
    """Its depthwise convolutions run on the device, what it has besides may run on the host."""
    module = build_model("mobilenet-small", (1, 8, 8), N_CLASSES, SEED).double().train()
    config, predicts = DESIGNS[variant], variant != "baseline"

    def make():
        network = Network(module, (1, 8, 8), 4, config, source="predicted" if predicts else None)
        assert sum(layer.kind is Kind.DEPTHWISE for layer in network.layers) == 6
        assert not any("conv" in operator for island in network.compiled.graph.islands for operator in island.operators)
        return network

    alike(make, module.state_dict(), [WARMUP, BP, GP] if predicts else [WARMUP, WARMUP])


def test_without_the_hardware_the_host_convolves():
    """With it, the costs have as many products."""
    found = {}
    for config in (TINY, replace(TINY, depthwise=False)):
        module = build()
        network = Network(module, IMAGE, BATCH, config)
        found[config.depthwise] = costs(network.compiled, module.state_dict())
        opcodes = {line.command.opcode for line in network.program}
        assert opcodes.isdisjoint(DEPTHWISE) is not config.depthwise
    host = [cost for cost in found[False] if cost.where == "host"]
    mine = [cost for cost in found[True] if "depthwise" in cost.operators]
    assert len(mine) == 2 and sum(cost.macs for cost in host) > 0 and not [c for c in found[True] if c.where == "host"]
    forward = [BATCH * 9 * 8 * 18 * 9, BATCH * 5 * 4 * 6 * 15]
    data = [forward[0], BATCH * 9 * 8 * 6 * 15]
    assert [cost.macs for cost in mine] == [2 * f + d for f, d in zip(forward, data, strict=True)]
    with pytest.raises(LoweringError, match=r"groups = 2, without the switch depthwise"):
        lower(nn.Sequential(nn.Conv2d(2, 2, 3, groups=2)), IMAGE, replace(TINY, depthwise=False))


def test_one_sequence_of_layers_has_them_too():
    """Without a capture: names and weights as torch has them."""
    layers = nn.Conv2d(2, 2, 3, padding="same", groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 9 * 8, N_CLASSES)
    module = nn.Sequential(*layers).double()
    network = Network(module, IMAGE, BATCH, TINY)
    first, second = network.layers
    assert [layer.kind for layer in lower(module, IMAGE, TINY)] == [Kind.DEPTHWISE, Kind.GEMM]
    assert (first.kind, first.relu, first.filter_elements, second.kind) == (Kind.DEPTHWISE, True, 10, Kind.GEMM)
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    images, labels = next(batches(network, 1))
    _, logits = train_batch(network, device, images, labels, calibrate=True)
    torch.testing.assert_close(
        torch.from_numpy(logits), module(torch.from_numpy(images)).detach(), atol=5e-3, rtol=5e-3
    )
