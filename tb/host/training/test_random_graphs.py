"""Random graphs: golden's forward pass and gradients against PyTorch in float64, and golden against simulated RTL."""

from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from adagp.host.compiler.joins import Join
from adagp.host.compiler.lowering import Kind
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.network import Network
from adagp.spec.phases import BP, GP, WARMUP
from adagp.spec.presets import preset
from batches import steps_are_gradients, train_batch
from random_graphs import RandomGraph
from random_programs import DESIGNS
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

BATCH, IMAGE, N_CLASSES, MEMORY = 6, (2, 8, 8), 3, 4 << 20
TINY = replace(preset("tiny"), n_tensors=512)
CONFIGS = TINY, DESIGNS["baseline"]
"""By the seed's last bit: without and with all that the switches build."""
SEEDS, MORE = range(34), 24
"""From MORE on graphs have groups, and averages without their padding."""
RATE = 0.25


def made(seed, config=TINY, **options):
    print(f"seed {seed}")
    torch.manual_seed(seed)
    module = RandomGraph(seed, 6 + seed % 9, IMAGE[0], IMAGE[1], N_CLASSES, more=seed >= MORE).double().train()
    rng = np.random.default_rng(seed)
    images, labels = rng.uniform(-1, 1, (BATCH, *IMAGE)), rng.integers(0, N_CLASSES, BATCH)
    return module, Network(module, IMAGE, BATCH, config, **options), images, labels


@cache
def trained(seed):
    """A graph as golden trains it: module, network, images and labels."""
    return made(seed, CONFIGS[seed % 2])


def relative(found, expected):
    scale = float(expected.abs().max())
    return float((found - expected).abs().max()) / max(scale, 1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_those_of_torch(seed):
    module, network, images, labels = trained(seed)
    device = GoldenDevice(network.config, MEMORY)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    network.load_state(device, before)
    network.set_hyper(device, RATE, 0.0, 0.0)
    _, logits = train_batch(network, device, images, labels, calibrate=True)
    twin = deepcopy(module)
    expected = twin(torch.from_numpy(images))
    nn.functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
    assert relative(torch.from_numpy(logits), expected.detach()) < 5e-3
    after = network.state_dict(device)
    assert list(after) == list(before) and steps_are_gradients(twin, before, after, RATE) > 0
    for name, buffer in twin.named_buffers():
        torch.testing.assert_close(after[name].double(), buffer.double(), atol=5e-3, rtol=5e-3)


def test_the_graphs_have_what_is_to_be_tested():
    layers = islands = sums = masks = shared = joins = norms = depthwise = clamps = groups = borders = 0
    for seed in SEEDS:
        _, network, _, _ = trained(seed)
        graph = network.compiled.graph
        layers, islands = layers + len(graph.layers), islands + len(graph.islands)
        sums += sum(len(layer.inputs) == 2 for layer in graph.layers)
        masks += sum(layer.relu for layer in graph.layers)
        shared += sum(".part" in name for name in network.tensors)
        joins += sum(isinstance(node, Join) for node in graph.nodes)
        norms += len(network.normed)
        depthwise += sum(layer.kind is Kind.DEPTHWISE for layer in graph.layers)
        clamps += sum(layer.clamps for layer in graph.layers)
        groups += sum(layer.groups > 1 for layer in graph.layers)
        borders += sum(layer.inside for layer in graph.layers)
    assert layers > 100 and islands > 25 and min(sums, masks, shared, joins, norms, depthwise, clamps) > 8
    assert groups > 6 and borders > 4


@pytest.mark.parametrize(
    "seed, variant",
    [(1, "baseline"), (4, "baseline"), (11, "baseline"), (33, "baseline"), (2, "max"), (9, "max"), (32, "max")],
)
def test_golden_and_simulated_rtl_train_alike(seed, variant):
    config = DESIGNS[variant]
    source, phases = (None, (WARMUP,) * 3) if variant == "baseline" else ("predicted", (WARMUP, BP, GP, GP, BP))
    hashes = []
    for device in (GoldenDevice(config, MEMORY), SimDevice(config, memory_bytes=MEMORY)):
        module, network, images, labels = made(seed, config, source=source)
        network.load_state(device, module.state_dict(), seed)
        network.set_hyper(device, 0.05, 0.9, 1e-3)
        if source:
            network.set_adam(device, 1e-3)
        found = []
        for step, phase in enumerate(phases):
            train_batch(network, device, images, labels, step == 0, phase)
            found.append(network.weights_hash(device))
        hashes.append(found)
        device.close()
    assert hashes[0] == hashes[1] and len(set(hashes[0])) == len(phases)
