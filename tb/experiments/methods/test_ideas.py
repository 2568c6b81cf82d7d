"""Ideas for GP batches: what each leaves of the true gradient, and what it costs."""

import pytest
import torch
from adagp.algorithm import schedule
from adagp.experiments.methods.ideas import IDEAS, KEPT, Idea, gp_macs
from adagp.spec.commands import Phase
from torch import nn
from torch.nn import functional as F

WEIGHTS = ("0.weight", "2.weight", "5.weight", "7.weight")


def trained(idea, n_warmup=1, seed=0):
    """A network, its gradients in the GP batch behind the warm-up, and that batch; the optimizer moves nothing."""
    torch.manual_seed(3)
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 8),
        nn.ReLU(), nn.Linear(8, 3),
    )  # fmt: skip
    optimizer = torch.optim.SGD(network.parameters(), 0.0)
    trainer = Idea(idea, network, optimizer, schedule(n_warmup, (1, 1, 0)), seed)
    generator = torch.Generator().manual_seed(1)
    gradients = []
    for _ in range(n_warmup + 1):
        batch = torch.randn(6, 1, 8, 8, generator=generator), torch.randint(0, 3, (6,), generator=generator)
        for _ in trainer.epoch(range(1)):
            trainer.step(lambda batch: F.cross_entropy(network(batch[0]), batch[1]), batch)
        gradients.append({name: network.get_parameter(name).grad for name in WEIGHTS})
    assert trainer.phase is Phase.GP
    return network, gradients, batch


def true(network, batch):
    """Gradients of plain training, by a network of the same weights without hooks."""
    plain = nn.Sequential(*(type(m)(m.in_channels, m.out_channels, 3, padding=m.padding) if isinstance(m, nn.Conv2d)
                            else type(m)(m.in_features, m.out_features) if isinstance(m, nn.Linear) else type(m)()
                            for m in network))  # fmt: skip
    plain.load_state_dict(network.state_dict())
    norms = []
    plain[5].register_forward_hook(lambda *call: call[2].register_hook(lambda g: norms.append(g.norm(dim=0))) and None)
    F.cross_entropy(plain(batch[0]), batch[1]).backward()
    return {"norms of 5": norms[0]} | {name: plain.get_parameter(name).grad for name in WEIGHTS}


def test_half_is_half_of_the_batch():
    network, gradients, (x, y) = trained("half")
    expected = true(network, (x[:3], y[:3]))
    assert all(torch.allclose(gradients[-1][name], expected[name], atol=1e-7) for name in WEIGHTS)


def test_sparse_keeps_the_channels_with_the_largest_gradients():
    network, gradients, batch = trained("sparse")
    expected = true(network, batch)
    assert torch.allclose(gradients[-1]["7.weight"], expected["7.weight"], atol=1e-7)
    for name in WEIGHTS[:-1]:
        alive = gradients[-1][name].flatten(1).abs().sum(1) > 0
        assert 0 < int(alive.sum()) <= round(KEPT * 8)
    alive = gradients[-1]["5.weight"].abs().sum(1) > 0  # behind it nothing has been left out
    assert set(alive.nonzero().flatten().tolist()) <= set(expected["norms of 5"].topk(2).indices.tolist())
    assert torch.allclose(gradients[-1]["5.weight"][alive], expected["5.weight"][alive], atol=1e-7)
    assert not torch.allclose(gradients[-1]["0.weight"], expected["0.weight"], atol=1e-7)


def test_narrow_trains_half_of_the_channels():
    _, gradients, _ = trained("narrow")
    for name in WEIGHTS[:-1]:
        assert int((gradients[-1][name].flatten(1).abs().sum(1) > 0).sum()) <= 4
    inputs = gradients[-1]["2.weight"].abs().sum((0, 2, 3)) > 0  # those of the first layer's that are there
    assert 0 < int(inputs.sum()) <= 4
    assert int((gradients[-1]["7.weight"].abs().sum(0) > 0).sum()) <= 4
    assert int((gradients[-2]["2.weight"].flatten(1).abs().sum(1) > 0).sum()) > 4  # the warm-up is whole


def by_example(network, batch):
    """Each example's part of the gradients, and the norm of its part of the outputs' gradient."""
    x, y = batch
    logits = network(x).detach().requires_grad_()
    F.cross_entropy(logits, y).backward()
    parts = [true(network, (x[n : n + 1], y[n : n + 1])) for n in range(len(x))]
    return [{name: part[name] / len(x) for name in WEIGHTS} for part in parts], logits.grad.norm(dim=1)


def test_hard_is_of_the_examples_with_the_largest_gradients():
    network, gradients, batch = trained("hard")
    parts, norms = by_example(network, batch)
    for name in WEIGHTS:
        expected = sum(parts[n][name] for n in norms.topk(2).indices)
        assert torch.allclose(gradients[-1][name], expected, atol=1e-7)


def test_drawn_is_the_batch_s_gradient_in_the_mean():
    """Two of six are drawn, each weighs what its odds lack; over all seeds nothing is missing, and none has it all."""
    parts, norms, seen = None, None, []
    for seed in range(300):
        network, gradients, batch = trained("drawn", seed=seed)
        if parts is None:
            parts, norms = by_example(network, batch)
        weighted = [part["7.weight"] * norms.sum() / norm / 2 for part, norm in zip(parts, norms, strict=True)]
        pairs = [a + b for n, a in enumerate(weighted) for b in weighted[n:]]
        matches = [torch.allclose(gradients[-1]["7.weight"], pair, atol=1e-6) for pair in pairs]
        assert sum(matches) == 1
        seen.append(gradients[-1]["7.weight"])
    whole = sum(part["7.weight"] for part in parts)
    far = (torch.stack(seen).mean(0) - whole).norm()
    assert far < 0.2 * whole.norm() < min((one - whole).norm() for one in seen)


@pytest.mark.parametrize("factor", [0.0, torch.inf])
def test_drawn_goes_on_without_odds(factor):
    """Training goes on if no example has a gradient, or if it has diverged."""
    network = nn.Sequential(nn.Linear(2, 3))
    trainer = Idea("drawn", network, torch.optim.SGD(network.parameters(), 0.1), schedule(0, (1, 1, 0)))
    trainer.step(lambda batch: factor * network(batch[0]).square().sum(), (torch.ones(4, 2),))
    assert network[0].weight.isfinite().all() == (factor == 0)


@pytest.mark.parametrize("idea", ["late", "late-mean"])
def test_late_is_of_the_second_half(idea):
    network, gradients, batch = trained(idea, n_warmup=2)
    expected = true(network, batch)
    for name in WEIGHTS[2:]:
        assert torch.allclose(gradients[-1][name], expected[name], atol=1e-7)
    for name in WEIGHTS[:2]:
        if idea == "late":
            assert gradients[-1][name] is None
        else:
            mean = torch.lerp(gradients[0][name], gradients[1][name], 1 / 8)
            assert torch.allclose(gradients[-1][name], mean, atol=1e-7)


def test_costs_by_hand():
    layers = ((100, 0), (40, 40), (20, 20), (8, 8))
    costs = {idea: gp_macs(idea, layers) for idea in IDEAS if idea != "coarse"}
    assert costs["half"] == (168 + 168 + 68) // 2
    assert costs["sparse"] == 168 + 16 + (160 + 60) // 4
    assert costs["narrow"] == 200 / 2 + 120 / 4 + 60 / 4 + 24 / 2
    assert costs["hard"] == costs["drawn"] == 168 + (168 + 68) // 4
    assert costs["late"] == costs["late-mean"] == 168 + (20 + 8) + 8


def test_batch_normalisation_is_refused_but_for_half():
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 3))
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for idea in IDEAS:
        if idea == "half":
            Idea(idea, network, optimizer, schedule(1))
        else:
            with pytest.raises(ValueError, match=f"^{idea} is for networks without batch normalisation$"):
                Idea(idea, network, optimizer, schedule(1))


def test_an_unknown_idea_is_told():
    network = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="no idea 'hope'; there are half"):
        Idea("hope", network, torch.optim.SGD(network.parameters(), 0.1), schedule(1))
