"""Random networks of all operators: golden's batch deviates from PyTorch's in float64 by a few times what noise does.

PyTorch computes the batch again with noise of the size of rounding in all weights, values and gradients. The largest
change of a tensor over some draws is the scale for the machine's deviation in that tensor: eight times it is the bound.
So a network that is sensitive, such as one with a batch norm of four values, has a wide bound, and all others a tight
one. Where rounding decides a ReLU or a maximum, the noise decides it too.
"""

from functools import cache

import numpy as np
import pytest
import torch
from adagp.host.compiler.joins import Join
from adagp.host.compiler.lowering import Kind
from adagp.host.compiler.quantise import dequantise
from adagp.host.compiler.tensors import layer_tensor
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.layer_weights import from_rows
from adagp.host.training.network import Network
from adagp.spec.phases import WARMUP
from batches import train_batch
from random_networks import RandomNetwork, gradients
from random_programs import DESIGNS

BATCH, N_CLASSES, MEMORY = 4, 3, 32 << 20
NOISE, DRAWS, MOST = 2.0**-14, 3, 8
"""Half of the last bit is at most such a share of a tensor's largest magnitude."""
SEEDS = range(32)
RATE = 2.0**-6


@cache
def made(seed):
    print(f"seed {seed}")
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 5)), int(rng.integers(5, 10)), int(rng.integers(5, 10)))
    module = RandomNetwork(seed, 4 + seed % 12, shape, N_CLASSES).double().train()
    network = Network(module, shape, BATCH, DESIGNS["baseline"])
    images, labels = rng.uniform(-1, 1, (BATCH, *shape)), rng.integers(0, N_CLASSES, BATCH)
    return module, network, images, labels, torch.get_rng_state()


def trained(module, network, images, labels):
    """The result and the gradients of a batch of golden: the device's as they lie in memory, the host's by steps."""
    device = GoldenDevice(network.config, MEMORY)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, RATE, 0.0, 0.0)
    before = network.state_dict(device)
    _, logits = train_batch(network, device, images, labels, calibrate=True)
    assert device.counters(WARMUP)["saturations"] == 0
    after, found = network.state_dict(device), {"result": torch.from_numpy(logits)}
    for name in dict(module.named_parameters()):
        found[name] = (before[name] - after[name]) / RATE
    for layer in network.weighted:
        tensor = network.tensors[layer_tensor(layer, "weight_gradient")]
        rows = network.read(device, tensor.name)[: 2 if layer.kind is Kind.NORM else None]
        exponent, _ = device.exponents(tensor.number)
        found |= {name: each for name, each in from_rows(layer, dequantise(rows, exponent)).items() if name}
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_deviate_by_rounding_alone(seed):
    module, network, images, labels, state = made(seed)
    torch.set_rng_state(state)
    exact = gradients(module, images, labels)
    noisy = [gradients(module, images, labels, NOISE) for _ in range(DRAWS)]
    found = trained(module, network, images, labels)
    assert found.keys() == exact.keys() and len(exact) > 1
    for name, expected in exact.items():
        scale = max(float((each[name] - expected).norm()) for each in noisy)
        assert float((found[name] - expected).norm()) < MOST * scale + 1e-9, name


def test_the_networks_have_all_operators():
    kinds, joins, islands, addends = set(), 0, 0, 0
    for seed in SEEDS:
        network = made(seed)[1]
        graph = network.compiled.graph
        kinds |= {(layer.kind, layer.groups > 1) for layer in graph.layers}
        joins, islands = joins + sum(isinstance(node, Join) for node in graph.nodes), islands + len(graph.islands)
        addends += sum(len(layer.inputs) == 2 for layer in graph.layers)
    assert {kind for kind, _ in kinds} >= set(Kind) - {Kind.JOIN, Kind.PRODUCT, Kind.DROPOUT} and (
        Kind.GEMM,
        True,
    ) in kinds
    assert joins > 8 and min(islands, addends) > 40
