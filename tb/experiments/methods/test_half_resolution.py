"""GP batches of smaller images: what their gradients are, when images are halved, and what it costs."""

import pytest
import torch
from adagp.algorithm import PredictorSettings, schedule
from adagp.experiments.methods.costs import batch_costs
from adagp.experiments.methods.half_resolution import Halving, halved
from adagp.experiments.methods.ideas import Idea
from adagp.experiments.methods.methods import METHODS
from adagp.experiments.networks.models import HALVED_MODELS, build
from adagp.experiments.regimes import REGIMES
from adagp.experiments.runs import Run, execute
from adagp.experiments.workers import data_of
from adagp.spec.commands import Phase
from small_experiments import TINY_REGIME
from torch import nn
from torch.nn import functional as F


def test_gradients_are_of_smaller_images():
    """Against a network made for such images, of the same weights: a linear layer's add up where it sees a repeat."""
    torch.manual_seed(3)
    network = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3))
    small = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3))
    small[0].load_state_dict(network[0].state_dict())
    windows = network[4].weight.detach().unflatten(1, (4, 2, 2, 2, 2))  # [class, channel, y, in window, x, in window]
    small[4].weight.data, small[4].bias.data = windows.sum((3, 5)).flatten(1), network[4].bias.data.clone()
    trainer = Idea("coarse", network, torch.optim.SGD(network.parameters(), 0.0), schedule(0, (1, 1, 0)))
    x, y = torch.randn(6, 1, 8, 8), torch.tensor([0, 1, 2, 0, 1, 2])
    loss = trainer.step(lambda batch: F.cross_entropy(network(batch[0]), batch[1]), (x, y))
    means = (x[..., ::2, ::2] + x[..., 1::2, ::2] + x[..., ::2, 1::2] + x[..., 1::2, 1::2]) / 4
    expected = F.cross_entropy(small(means), y)
    expected.backward()
    assert trainer.phase is Phase.GP and torch.allclose(loss, expected)
    assert torch.allclose(network[0].weight.grad, small[0].weight.grad, atol=1e-6)
    repeated = small[4].weight.grad.unflatten(1, (4, 2, 2))
    repeated = repeated.repeat_interleave(2, 2).repeat_interleave(2, 3).flatten(1)
    assert torch.allclose(network[4].weight.grad, repeated, atol=1e-6) and repeated.abs().sum() > 0


@pytest.mark.parametrize("model", HALVED_MODELS)
@pytest.mark.parametrize("side", [8, 14, 28, 32])
def test_halved_images_are_taken_inside_alone(model, side):
    """Halved images of any size train; 14 pixels are pooled to 3, and 7 to 1. Whole images stay as they were."""
    network, x = build(model, 10, side, 0, channels=1), torch.randn(2, 1, side, side)
    before = network(x)
    halving = Halving(network)
    with halving:
        assert network(halved(x)).shape == (2, 10) and torch.equal(network(x), before)
    assert torch.equal(network(x), before)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        network(halved(x))


def test_only_gp_batches_are_halved():
    network, seen = build("small-cnn", 10, 16, 0), []

    def compute(batch):
        seen.append((trainer.phase, batch[0].shape[-1], len(batch[0]), len(batch[1])))
        return F.cross_entropy(network(batch[0]), batch[1])

    trainer = Idea("coarse", network, torch.optim.SGD(network.parameters(), 0.1), schedule(1, (1, 1, 1)))
    for _ in range(2):
        for batch in trainer.epoch([(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 2, 3]))] * 2):
            trainer.step(compute, batch)
    sides = {Phase.WARMUP: 16, Phase.GP: 8, Phase.BP: 16}
    assert {phase for phase, *_ in seen} == set(sides)
    assert all(side == sides[phase] and n == labels == 4 for phase, side, n, labels in seen)


def test_costs_by_hand():
    """In the small CNN on 8 x 8 pixels convolutions see a quarter of the places, linear layers as much as before."""
    outcome = execute(Run("tiny", "small-cnn", "coarse-1:1", 3, 0.05, 4, 64, 8, 1), data_of(TINY_REGIME, None))
    first, others, linear = 9 * 16 * 64, 144 * 32 * 16 + 288 * 64 * 4, 256 * 128 + 128 * 10
    whole, small = (64 * (2 * first // by + 3 * (others // by + linear)) for by in (1, 4))
    n_gp = outcome.batches["gp"]
    assert n_gp > 0 and outcome.macs == n_gp * small + (16 - n_gp) * whole and outcome.whole == 16 * whole


def test_small_images_alone_are_trained_with_for_what_coarse_batches_cost():
    """cifar16-steep beside cifar32-steep, but for less than half of an epoch."""
    whole, small = REGIMES["cifar32-steep"], REGIMES["cifar16-steep"]
    batches = {regime.name: regime.images // regime.batch_size for regime in (whole, small)}

    def macs(regime, x=None):
        network = build(regime.model, 10, regime.image_size, 0)
        x = torch.zeros(1, 3, regime.image_size, regime.image_size) if x is None else x
        with Halving(network):
            return batch_costs(network, lambda net: net(x), PredictorSettings()).bp

    planned = METHODS["coarse"].planned(whole.epochs, batches[whole.name])
    coarse = planned["gp"] * macs(whole, torch.zeros(1, 3, 16, 16)) + (planned["warmup"] + planned["bp"]) * macs(whole)
    epoch = batches[small.name] * macs(small)
    assert abs(small.epochs * epoch - coarse) < epoch / 2
