"""GP batches that update the weights of several layers together."""

import pytest
import torch
from adagp import AdaGP, schedule
from adagp.spec.commands import Phase
from torch import nn
from torch.nn import functional as F
from torch_networks import conv_network, image_batches, weights_of

LAYERS = ("0", "3", "5", "8")
RATES = (0.1, 0.05, 0.1, 0.05)
"""Two groups of the optimizer, in turn."""


def _train(weights_at_once, kind, source):
    """A BP batch and two GP batches; returns weights, and what the predictor was given at a time in the last."""
    network, batches = conv_network(), image_batches(3)
    groups = [{"params": [network.get_parameter(f"{layer}.weight")], "lr": rate}
              for layer, rate in zip(LAYERS[:2], RATES[:2], strict=True)]  # fmt: skip
    for group, layer in zip(groups, LAYERS[2:], strict=True):
        group["params"].append(network.get_parameter(f"{layer}.weight"))
    optimizer = kind(groups)
    before = [list(group["params"]) for group in optimizer.param_groups]
    steps, pieces, changed = [], [], []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    ada = AdaGP(network, optimizer, schedule(1, (1, 1, 0)), source=source, weights_at_once=weights_at_once)
    gradients = ada.source.gradients
    ada.source.gradients = lambda weights, outputs: pieces.append(list(weights)) or gradients(weights, outputs)
    for number, (x, y) in enumerate(batches):
        start = weights_of(network)
        steps.clear()
        pieces.clear()

        def compute(x=x, y=y, start=start):
            loss = F.cross_entropy(network(x), y)
            changed.extend(name for name in ada.predicted if not torch.equal(network.get_parameter(name), start[name]))
            return loss

        ada.step(compute)
        if number == 0:
            ada.end_epoch()
    assert ada.phase is Phase.GP and [group["params"] for group in optimizer.param_groups] == before
    assert all(weight.grad is None for group in before for weight in group)
    assert len(steps) == 1 and not changed, "weights stay until the forward pass is over"
    return weights_of(network), pieces


@pytest.mark.parametrize("source", ["predicted", "random", "last"])
@pytest.mark.parametrize("kind", [
    lambda groups: torch.optim.SGD(groups, momentum=0.9, weight_decay=1e-3),
    lambda groups: torch.optim.AdamW(groups, foreach=True),
])  # fmt: skip
def test_weights_at_once_end_as_one_by_one(kind, source):
    expected, one_by_one = _train(1, kind, source)
    names = [f"{layer}.weight" for layer in LAYERS]
    assert one_by_one == [[name] for name in names]
    for at_once, parts in ((2, [names[:2], names[2:]]), (3, [names[:3], names[3:]]), (4, [names]), (9, [names])):
        weights, pieces = _train(at_once, kind, source)
        assert pieces == parts
        for name, weight in expected.items():
            torch.testing.assert_close(weights[name], weight, msg=name)


def test_a_step_that_fails_leaves_the_optimizer_whole():
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.SGD([{"params": [layer.weight]} for layer in network], 0.1)
    ada = AdaGP(network, optimizer, schedule(1, (1, 1, 0)), weights_at_once=2)
    ada.step(lambda: network(torch.ones(2, 4)).square().sum())
    ada.end_epoch()
    before = [group["params"] for group in optimizer.param_groups]
    hook = optimizer.register_step_pre_hook(lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        ada.step(lambda: network(torch.ones(2, 4)).sum())
    hook.remove()
    assert [group["params"] for group in optimizer.param_groups] == before
    assert all(layer.weight.grad is None for layer in network)
    start = weights_of(network)
    ada.step(lambda: network(torch.ones(2, 4)).sum())
    assert not any(torch.equal(layer.weight, start[f"{place}.weight"]) for place, layer in enumerate(network))


def test_attention_and_a_weight_that_is_used_twice():

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.linear = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(self.linear(self.attention(x, x, x, need_weights=False)[0]))

    ends = []
    x = torch.randn(4, 3, 5, 8, generator=torch.Generator().manual_seed(2))
    for weights_at_once in (1, 2, 5):
        torch.manual_seed(3)
        network = Twice()
        optimizer = torch.optim.Adam(network.parameters(), 0.01)
        ada = AdaGP(network, optimizer, schedule(1, (1, 3, 0)), weights_at_once=weights_at_once)
        for number, batch in enumerate(x):
            ada.step(lambda batch=batch, network=network: network(batch).square().sum())
            if number == 0:
                ada.end_epoch()
        assert ada.phase is Phase.GP and len(ada.predicted) == 3
        ends.append(weights_of(network))
    for end in ends[1:]:
        for name, weight in ends[0].items():
            torch.testing.assert_close(end[name], weight, msg=name)


@pytest.mark.parametrize("weights_at_once", [1, 2, 9])
def test_the_callers_autocast_is_not_the_predictors(weights_at_once):
    """Nor what attention's projections are seen by: gradients are those of float32, of the outputs that there were."""
    torch.manual_seed(4)
    network = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(3, 5, 8)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 1.0), schedule(1, (1, 1, 0)),
                weights_at_once=weights_at_once)  # fmt: skip
    start, moves = None, []
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            start = weights_of(network)
            ada.step(lambda: network(x, x, x, need_weights=False)[0].float().square().mean())
        ada.end_epoch()
        moves = {name: start[name] - network.get_parameter(name).detach() for name in ada.predicted}
    assert ada.phase is Phase.GP
    weight, bias = start["in_proj_weight"].view(3, 8, 8), start["in_proj_bias"].view(3, 8)
    tokens = x.mean(0)[:4]  # of four windows; the fifth is in none
    seen = torch.cat([(tokens @ w.T + b).T for w, b in zip(weight, bias, strict=True)]).view(24, 2, 2)
    expected = ada.predictor.gradients({"in_proj_weight": seen})["in_proj_weight"]
    torch.testing.assert_close(moves["in_proj_weight"], expected, atol=1e-6, rtol=1e-4)


def test_a_gp_batch_that_breaks_off_changes_no_weight():
    network = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(1, (1, 1, 0)))
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    ada.step(lambda: sum(layer(x).square().sum() for layer in network))
    ada.end_epoch()
    before = weights_of(network)
    with pytest.raises(ZeroDivisionError):
        ada.step(lambda: network[0](x).sum() * (1 // 0))
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    ada.step(lambda: network[1](x).square().sum())
    assert ada.phase is Phase.GP and torch.equal(network[0].weight, before["0.weight"])
    assert not torch.equal(network[1].weight, before["1.weight"])


def test_a_second_use_sees_the_weight_as_it_was():
    network = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(1, (1, 1, 0)))
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    ada.step(lambda: network[1](network[0](x)).square().sum())
    ada.end_epoch()
    before, seen = weights_of(network), []

    def twice():
        once = network[0](x)
        seen.append(network[0].weight.detach().clone())
        return network[1](network[0](once)).square().sum()

    ada.step(twice)
    assert ada.phase is Phase.GP and torch.equal(seen[0], before["0.weight"])
    assert not torch.equal(network[0].weight, before["0.weight"])
