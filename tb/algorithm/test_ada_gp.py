"""ADA-GP around a user's network: what BP and GP batches do to it, against a training loop written out by hand."""

import copy

import pytest
import torch
from adagp import PAPER, AdaGP, PredictorSettings, schedule
from adagp.spec.commands import Phase
from adagp.spec.schedule import State, following
from torch import nn
from torch.nn import functional as F
from torch_networks import conv_network, image_batches, weights_of

GP_ONLY = schedule(0, (1, 1, 0))
BP_ONLY = schedule(1 << 15)
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 1e-2, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
    "adadelta": lambda p: torch.optim.Adadelta(p, 1.0),
    "adamax": lambda p: torch.optim.Adamax(p, 1e-2),
    "nadam": lambda p: torch.optim.NAdam(p, 1e-2),
    "radam": lambda p: torch.optim.RAdam(p, 1e-2),
    "rprop": lambda p: torch.optim.Rprop(p, 1e-2),
    "asgd": lambda p: torch.optim.ASGD(p, 1e-2),
    "adafactor": lambda p: torch.optim.Adafactor(p, 1e-2),
}


def step(ada, network, batch):
    x, y = batch
    return ada.step(lambda: F.cross_entropy(network(x), y))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_bp_batches_are_plain_training(name):
    network, batches = conv_network(), image_batches(4)
    plain = copy.deepcopy(network)
    ada = AdaGP(network, OPTIMIZERS[name](network.parameters()), BP_ONLY)
    optimizer = OPTIMIZERS[name](plain.parameters())
    for x, y in batches:
        loss = step(ada, network, (x, y))
        optimizer.zero_grad()
        expected = F.cross_entropy(plain(x), y)
        expected.backward()
        optimizer.step()
        assert ada.phase is Phase.WARMUP and loss == expected.detach() and not loss.requires_grad
    for key, value in plain.state_dict().items():
        assert torch.equal(network.state_dict()[key], value), key


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gp_batch_updates_each_layer_by_its_own_output(name):
    """By hand: layer by layer, the output of the old weight, the predictor's gradient of it, a step of that weight."""
    network, batches = conv_network(), image_batches(3)
    optimizer = OPTIMIZERS[name](network.parameters())
    ada = AdaGP(network, optimizer, schedule(1, (1, 1, 0)))
    for _ in ada.epoch(range(1)):
        step(ada, network, batches[0])  # so that scales and optimizer states aren't empty
    by_hand, x = copy.deepcopy(network), batches[1][0]
    other = OPTIMIZERS[name](by_hand.parameters())
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    fc, conv = ada.predictor.fc, ada.predictor.conv
    with torch.no_grad():
        for place, layer in enumerate(by_hand):
            x = layer(x)
            if not isinstance(layer, nn.Conv2d | nn.Linear):
                continue
            mean = x.mean(0)
            seen = F.adaptive_avg_pool2d(mean, 2) if mean.dim() == 3 else mean[:, None, None].expand(-1, 2, 2)
            hidden = F.relu(F.conv2d(seen[:, None], conv.weight, conv.bias, padding=1)).flatten(1)
            elements = layer.weight[0].numel()
            predicted = (hidden @ fc.weight.T + fc.bias)[:, :elements]
            scale = ada.predictor.scales[list(ada.predictor.elements).index(f"{place}.weight")].sqrt()
            other.zero_grad(set_to_none=True)
            layer.weight.grad = (predicted * scale).view_as(layer.weight)
            other.step()
    before = weights_of(network)
    loss = step(ada, network, batches[1])
    assert ada.phase is Phase.GP
    torch.testing.assert_close(loss, F.cross_entropy(x, batches[1][1]))
    changed = 0
    for key, value in by_hand.state_dict().items():
        torch.testing.assert_close(network.state_dict()[key], value, msg=key)
        changed += not torch.equal(before[key], value)
    predicted_and_statistics = len(ada.predicted) + 3
    assert changed == predicted_and_statistics and len(ada.predicted) == 4


class Loud(torch.autograd.Function):
    """Can't be taken back."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("backward")


def test_backward_is_not_run_in_gp_batches():
    network, (batch, other) = conv_network(), image_batches(2)
    seen = []
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(0, (1, 1, 1)))
    for module in network:
        module.register_full_backward_hook(lambda *_: seen.append(1))

    def loss(x, y):
        output = Loud.apply(network(x))
        assert output.requires_grad is (ada.next_phase() is not Phase.GP)
        return F.cross_entropy(output, y)

    ada.step(lambda: loss(*batch))
    assert ada.phase is Phase.GP and not seen
    assert all(parameter.grad is None for parameter in network.parameters())
    with pytest.raises(RuntimeError, match="backward"):
        ada.step(lambda: loss(*other))


def test_what_is_not_predicted_is_frozen_in_gp_batches():
    network, (batch,) = conv_network(), image_batches(1)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, weight_decay=0.1), GP_ONLY)
    before = weights_of(network)
    step(ada, network, batch)
    assert ada.frozen == ["0.bias", "1.weight", "1.bias", "3.bias", "5.bias", "8.bias"]
    assert all(torch.equal(before[name], network.state_dict()[name]) for name in ada.frozen)
    assert not any(torch.equal(before[name], network.state_dict()[name]) for name in ada.predicted)


def test_the_predictor_rests_in_gp_batches():
    network, batches = conv_network(), image_batches(4)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(0, (1, 1, 1)))
    for batch in batches:
        before = weights_of(ada.predictor)
        step(ada, network, batch)
        rests = all(torch.equal(before[key], value) for key, value in ada.predictor.state_dict().items())
        assert rests is (ada.phase is Phase.GP)


@pytest.mark.parametrize(
    "table", [PAPER, schedule(2, (1, 4, 1), (2, 3, 2), (1, 1, 1)), schedule(1), schedule(0, (1, 0, 1))]
)
def test_phases_are_the_machine_s(table):
    network = nn.Linear(2, 2)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), table, metrics=False)
    n_batches, seen, expected = 7, [], []
    state = State()
    machine = table.__class__(table.warmup, n_batches, table.entries)
    for _ in range(14 if table is PAPER else 8):
        for _ in ada.epoch(range(n_batches)):
            ada.step(lambda: network(torch.ones(3, 2)).sum())
            seen.append(ada.phase)
            phase, state = following(state, machine)
            expected.append(phase)
    assert seen == expected
    assert (Phase.GP in seen) is bool(table.entries and table.entries[0].gp)


def test_the_predictor_learns_in_every_third_batch_with_true_gradients():
    """Warm-up's included, GP batches not counted; a run that goes on from a state counts on."""
    network, batches = conv_network(), image_batches(12)
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    ada = AdaGP(network, optimizer, schedule(1, (1, 1, 1)), predictor_every=3)
    learned, true = [], []
    for number, batch in enumerate(batches):
        if number == 4:
            ada.end_epoch()
        if number == 7:
            state = copy.deepcopy(ada.state_dict())
            ada.close()
            ada = AdaGP(network, optimizer, schedule(1, (1, 1, 1)), predictor_every=3)
            ada.load_state_dict(state)
        before = weights_of(ada.predictor)
        step(ada, network, batch)
        if ada.phase is not Phase.GP:
            true.append(number)
        if not all(torch.equal(before[key], value) for key, value in ada.predictor.state_dict().items()):
            learned.append(number)
    assert learned == true[::3] == [0, 3, 9]


@pytest.mark.parametrize("nesterov", [False, True])
def test_gp_batches_can_leave_momentum_as_it_is(nesterov):
    """Their step is one of SGD without momentum, decay included."""
    network, batches = conv_network(), image_batches(2)
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9, weight_decay=1e-2, nesterov=nesterov)
    ada = AdaGP(network, optimizer, schedule(1, (1, 1, 0)), gp_momentum="keep")
    for _ in ada.epoch(range(1)):
        step(ada, network, batches[0])
    plain = copy.deepcopy(network)
    other = AdaGP(plain, torch.optim.SGD(plain.parameters(), 0.1, weight_decay=1e-2), GP_ONLY)
    other.predictor.load_state_dict(ada.predictor.state_dict())
    momenta = {p: optimizer.state[p]["momentum_buffer"].clone() for p in network.parameters()}
    step(ada, network, batches[1])
    step(other, plain, batches[1])
    assert ada.phase is other.phase is Phase.GP and optimizer.param_groups[0]["momentum"] == 0.9
    assert all(torch.equal(optimizer.state[p]["momentum_buffer"], value) for p, value in momenta.items())
    for name, value in plain.state_dict().items():
        assert torch.equal(network.state_dict()[name], value), name


def test_an_epoch_left_goes_on():
    network = nn.Linear(2, 2)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(1, (1, 1, 1)))
    for _ in ada.epoch(range(3)):
        break
    assert ada.epochs == 0 and ada.next_phase() is Phase.WARMUP
    ada.end_epoch()
    assert ada.epochs == 1 and ada.next_phase() is Phase.GP


def test_clip_comes_between_gradients_and_update():
    """In GP batches too: there it sees the predicted gradients of all weights, and no others."""
    network, batches = conv_network(), image_batches(2)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), schedule(1, (1, 1, 0)))
    seen = []

    def clip(most):
        there = {name for name, p in network.named_parameters() if p.grad is not None}
        seen.append((there, nn.utils.clip_grad_norm_(network.parameters(), most)))

    for (x, y), most in zip(batches, (1e-1, 1e-2), strict=True):
        before = weights_of(network)
        ada.step(lambda x=x, y=y: 100 * F.cross_entropy(network(x), y), lambda most=most: clip(most))
        moved = torch.stack([(before[n] - p.detach()).norm() for n, p in network.named_parameters()]).norm()
        torch.testing.assert_close(moved, torch.tensor(0.1 * most), rtol=1e-2, atol=0)
        ada.end_epoch()
    (every, true), (predicted, guessed) = seen
    assert ada.phase is Phase.GP and true > 1 and guessed > 0.01
    assert every == {name for name, _ in network.named_parameters()} and predicted == set(ada.predicted)
    assert all(p.grad is None for p in network.parameters())


def test_what_is_clipped_is_what_sources_keep():
    network = nn.Linear(2, 2, bias=False)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 1.0), schedule(0, (1, 1, 1)), source="last")
    moves = []
    for _ in range(3):
        before = network.weight.detach().clone()
        ada.step(lambda: 1000 * network(torch.ones(1, 2)).sum(),
                 lambda: nn.utils.clip_grad_norm_(network.parameters(), 1.0))  # fmt: skip
        moves.append(float((network.weight.detach() - before).norm()))
    assert moves == pytest.approx([0, 1, 1], abs=1e-4)


def test_weights_without_gradients_stay():
    """Those frozen later on, and those that no gradient comes to, as a part that runs without recording."""
    torch.manual_seed(1)
    back, head = nn.Linear(3, 3), nn.Linear(3, 3)
    network = nn.Sequential(back, head)
    optimizer = torch.optim.SGD(network.parameters(), 0.1, weight_decay=0.1)
    ada = AdaGP(network, optimizer, schedule(1, (1, 1, 0)))

    def compute():
        with torch.no_grad():
            x = back(torch.ones(2, 3))
        return head(x).square().sum()

    def moved():
        before = weights_of(network)
        ada.step(compute)
        return {name for name, value in network.state_dict().items() if not torch.equal(before[name], value)}

    assert moved() == {"1.weight", "1.bias"}
    ada.end_epoch()
    assert moved() == {"1.weight"} and ada.phase is Phase.GP
    head.weight.requires_grad_(False)
    assert moved() == set()


def test_paper_settings():
    assert PredictorSettings.paper().lr == 1e-4 and not PredictorSettings.paper().normalise
    assert PAPER.warmup == 10 and [(e.epochs, e.gp, e.bp) for e in PAPER.entries[:2]] == [(4, 4, 1), (4, 3, 1)]
