"""Siblings of published networks: their parameters against the published numbers, their layers and their export."""

import pytest
import torch
from adagp.host.training.models import MODELS, build_model
from adagp.host.training.siblings import DenseNet, MobileNet, ResNet
from torch import nn

SIBLINGS = ("resnet20", "resnet18-small", "densenet-small", "mobilenet-small")
TABLE_2 = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Rows of blocks in the paper on MobileNet-V2: expansion, channels, blocks, stride of the first."""


def size(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("depth, published", [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)])
def test_residual_networks_for_cifar(depth, published):
    """He et al.'s table 6, in millions, for option A: option B's 1x1 convolutions and their norms come on top."""
    around = 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64
    network = ResNet(3, 10, (16, 32, 64), (depth - 2) // 6)
    assert round((size(network) - around) / 1e6, 2 if published < 1 else 1) == published


@pytest.mark.parametrize("growth, depth, published", [(12, 100, 0.8), (24, 250, 15.3), (40, 190, 25.6)])
def test_dense_networks_for_cifar(growth, depth, published):
    """DenseNet-BC in Huang et al.'s table 2, in millions: three blocks of dense layers with two convolutions each."""
    assert round(size(DenseNet(3, 10, growth, 3 * ((depth - 4) // 6,))) / 1e6, 1) == published


def test_published_networks():
    """Those published with torchvision's weights, but for the first convolution of 7x7 and 1,000 classes."""
    first, last = 64 * 3 * (49 - 9), 1000 - 10
    assert size(ResNet(3, 10, (64, 128, 256, 512), 2)) == 11_689_512 - first - last * 513
    norm = 2 * 64  # ImageNet's form has a batch norm after the first convolution
    assert size(DenseNet(3, 10, 32, (6, 12, 24, 16))) == 7_978_856 - first - last * 1025 - norm
    assert size(MobileNet(3, 1000, TABLE_2, 32, 1280)) == 3_504_872


def test_small_ones_have_their_layers():
    kinds = {
        name: [sum(isinstance(m, kind) for m in build_model(name, (3, 32, 32), 10, 0).modules())
               for kind in (nn.Conv2d, nn.BatchNorm2d, nn.Linear)]
        for name in SIBLINGS
    }  # fmt: skip
    assert kinds == {
        "resnet20": [21, 21, 1],  # 19 in a row, and two around blocks
        "resnet18-small": [20, 20, 1],
        "densenet-small": [1 + 2 * 12 + 3, 2 * 12 + 3 + 1, 1],
        "mobilenet-small": [1 + 2 + 5 * 3 + 1, 1 + 2 + 5 * 3 + 1, 1],
    }
    assert set(SIBLINGS) < set(MODELS)


@pytest.mark.parametrize("name", SIBLINGS)
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8)])
def test_small_ones_learn_and_export(name, shape):
    """A step lowers the loss of its batch; the exported graph computes what the module does."""
    torch.set_num_threads(1)
    network = build_model(name, shape, 7, 0)
    torch.manual_seed(0)
    x, labels = torch.randn(4, *shape), torch.tensor([0, 3, 6, 3])
    exported = torch.export.export(network.train(), (x,)).run_decompositions({})
    assert torch.equal(exported.module()(x), network(x))
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    losses = []
    for _ in range(4):
        loss = nn.functional.cross_entropy(network(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert network(x).shape == (4, 7) and losses[-1] < losses[0]
