"""Weights that are rows of a larger parameter: who computes with them, and the state dict."""

import numpy as np
import pytest
import torch
from adagp.host.compiler.front_end import graph_of
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.network import Network
from adagp.spec.presets import preset
from batches import train_batch
from made_modules import Made
from torch import nn
from torch.nn import functional

TINY, BATCH, WIDTH, SEED = preset("tiny"), 3, 4, 3


def of_parts(split, bias=True):
    """A function of the rows of one parameter, as ``split`` has them; each reads another operand."""

    def forward(self, x):
        x = self.first(x)
        weights = split(self.weight)
        biases = split(self.bias) if bias else [None] * len(weights)
        pairs = zip(weights, biases, strict=True)
        return self.last(torch.cat([functional.linear(x.tanh() * n, *pair) for n, pair in enumerate(pairs, 1)], -1))

    return forward


def made(forward, rows=10, last=10, bias=True):
    torch.manual_seed(SEED)
    module = Made(forward, first=nn.Linear(5, WIDTH), last=nn.Linear(last, 3))
    module.weight = nn.Parameter(torch.randn(rows, WIDTH))
    if bias:
        module.bias = nn.Parameter(torch.randn(rows))
    return module


def parts_of(graph):
    """Layers with rows of ``weight``: the first row, and how many."""
    return [(layer.first_row, layer.q) for layer in graph.layers if layer.parameters[0] == "weight"]


@pytest.mark.parametrize(
    ("split", "found"),
    [
        (lambda w: w.split([6, 4]), [(0, 6), (6, 4)]), (lambda w: w.chunk(3), [(0, 4), (4, 4), (8, 2)]),
        (lambda w: (w[7:], w[:7]), [(7, 3), (0, 7)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bias", [False, True])
def test_parts_are_layers(split, found, bias):
    graph = graph_of(made(of_parts(split, bias), bias=bias), (5,), BATCH, TINY)
    assert parts_of(graph) == found and not any("weight" in island.parameters for island in graph.islands)


@pytest.mark.parametrize(
    ("split", "last"),
    [
        (lambda w: (w[:6], w[5:]), 11), (lambda w: (w[:6],), 6), (lambda w: (w[::2], w[1::2]), 10),
        (lambda w: (w[:6], w[6:] * 2), 10), (lambda w: (w[:6], w[6:], w), 20),
    ],
)  # fmt: skip
def test_the_host_has_parameters_whose_rows_are_not_all_layers(split, last):
    """Overlapping, missing, scattered or changed rows, and a whole that is read beside its parts."""
    graph = graph_of(made(of_parts(split, False), last=last, bias=False), (5,), BATCH, TINY)
    assert not parts_of(graph) and any("weight" in island.parameters for island in graph.islands)


def test_weights_and_biases_of_other_rows():
    def forward(self, x):
        x = self.first(x)
        found = (
            functional.linear(x, self.weight[:5], self.bias[5:]),
            functional.linear(x, self.weight[5:], self.bias[:5]),
        )
        return self.last(torch.cat(found, -1))

    assert not parts_of(graph_of(made(forward), (5,), BATCH, TINY))


def test_training_follows_torch():
    """The state dict has the parameter whole, and its rows learn as torch's do."""
    print(f"seed {SEED}")
    module = made(of_parts(lambda w: w.split([6, 4]))).double().train()
    network = Network(module, (5,), BATCH, TINY)
    assert len(parts_of(network.compiled.graph)) == 2
    device = GoldenDevice(TINY, 1 << 20)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.05, 0.9, 0.01)
    before = network.state_dict(device)
    optimiser = torch.optim.SGD(module.parameters(), 0.05, 0.9, weight_decay=0.01)
    inputs, labels = np.random.default_rng(SEED).uniform(-1, 1, (BATCH, 5)), np.arange(BATCH)
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(before[name], value, atol=1e-6)
    for step in range(4):
        train_batch(network, device, inputs, labels, calibrate=not step)
        optimiser.zero_grad()
        functional.cross_entropy(module(torch.from_numpy(inputs)), torch.from_numpy(labels)).backward()
        optimiser.step()
    after = network.state_dict(device)
    assert list(after) == list(module.state_dict())
    for name, value in module.state_dict().items():
        assert (after[name] != before[name]).any()
        np.testing.assert_allclose(after[name], value, atol=1e-3)
