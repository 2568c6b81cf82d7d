"""Deferred updates: steps by hand, states in the middle of a run, and what they refuse."""

import copy

import pytest
import torch
from adagp.algorithm import AdaGP, schedule
from adagp.experiments.methods.deferred import Deferred
from adagp.spec.commands import Phase
from torch import nn

LR, MOMENTUM, DECAY = 0.1, 0.9, 0.01
PHASES = (Phase.WARMUP, Phase.GP, Phase.GP, Phase.GP, Phase.BP, Phase.GP, Phase.GP)


def made(runs=(1, 3, 1), **options):
    """A linear layer, and its trainer whose first epoch, the warm-up, has one batch."""
    torch.manual_seed(4)
    network = nn.Linear(3, 2, bias=False)
    optimizer = torch.optim.SGD(
        network.parameters(), LR, **{"momentum": MOMENTUM, "weight_decay": DECAY, **options}
    )  # fmt: skip
    return network, optimizer, Deferred(network, optimizer, schedule(1, runs), seed=5)


def batches():
    generator = torch.Generator().manual_seed(6)
    return [torch.randn(4, 3, generator=generator) for _ in PHASES]


def train(trainer, network, some, first=0):
    """Yield after each batch; the warm-up's epoch ends with its batch."""
    for number, x in enumerate(some, first):
        trainer.step(lambda x=x: network(x).square().mean())
        assert trainer.phase is PHASES[number]
        if number == 0:
            trainer.end_epoch()
        yield number


@pytest.mark.parametrize("maximize", [False, True])
def test_a_run_by_hand(maximize, monkeypatch):
    """Weights stay in a run of GP batches; then its sum comes with the step of SGD, which knows none of it."""
    network, optimizer, trainer = made(maximize=maximize)
    given = [torch.full((2, 3), value) for value in (1.0, 2.0, -5.0, 7.0, 11.0)]
    left = iter(given)
    monkeypatch.setattr(trainer.source, "gradients", lambda weights, _: dict.fromkeys(weights, next(left)))
    sign = -1 if maximize else 1

    def true(weight, x):
        return 2 * (x @ weight.T).T @ x / (x.shape[0] * 2)

    weight, momentum, waiting = network.weight.detach().clone(), None, 0
    steps = iter(given)
    for number, x in zip(train(trainer, network, batches()), batches(), strict=True):
        if PHASES[number] is Phase.GP:
            waiting = waiting + optimizer.param_groups[0]["lr"] * (sign * next(steps) + DECAY * weight)
        else:
            gradient = sign * true(weight, x) + DECAY * weight
            momentum = gradient if momentum is None else MOMENTUM * momentum + gradient
            weight, waiting = weight - LR * momentum - waiting, 0
        optimizer.param_groups[0]["lr"] = LR * (1 + (number == 1))  # of the third batch alone
        torch.testing.assert_close(network.weight.detach(), weight)
        torch.testing.assert_close(optimizer.state[network.weight]["momentum_buffer"], momentum)
        assert network.weight.grad is None or PHASES[number] is not Phase.GP
    trainer.end_epoch()
    torch.testing.assert_close(network.weight.detach(), weight - waiting)
    before = network.weight.detach().clone()
    trainer.end_epoch()
    assert torch.equal(network.weight, before), "nothing is taken twice"


def test_without_waiting_it_is_a_kept_momentum():
    """One GP batch, then the end of the epoch: the step that AdaGP takes at once."""
    network, _, trainer = made((1, 1, 0))
    plain = copy.deepcopy(network)
    optimizer = torch.optim.SGD(plain.parameters(), LR, momentum=MOMENTUM, weight_decay=DECAY)
    other = AdaGP(plain, optimizer, schedule(1, (1, 1, 0)), gp_momentum="keep", seed=5)
    before = network.weight.detach().clone()
    for x in batches()[:3]:
        for one, of in ((trainer, network), (other, plain)):
            one.step(lambda of=of, x=x: of(x).square().mean())
            one.end_epoch()
    assert trainer.phase is other.phase is Phase.GP and not torch.equal(before, network.weight)
    torch.testing.assert_close(network.weight, plain.weight, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("stop", [1, 2, 4])
def test_a_state_in_the_middle_of_a_run_goes_on(stop):
    """With the same bits as if it had not stopped."""
    network, _, trainer = made()
    for _ in train(trainer, network, batches()):
        pass
    trainer.end_epoch()
    stopped, optimizer, begun = made()
    for number in train(begun, stopped, batches()):
        if number == stop:
            saved = copy.deepcopy((stopped.state_dict(), optimizer.state_dict(), begun.state_dict()))
            break
    again, fresh, following = made()
    for part, of in zip((again, fresh, following), saved, strict=True):
        part.load_state_dict(of)
    assert bool(saved[2]["waiting"]) == (stop != 4)
    for _ in train(following, again, batches()[stop + 1 :], stop + 1):
        pass
    following.end_epoch()
    assert torch.equal(again.weight, network.weight)


def test_clip_sees_what_waits():
    network, _, trainer = made(weight_decay=0)
    for _ in train(trainer, network, batches()[:1]):
        pass
    before = network.weight.detach().clone()
    for x in batches()[1:3]:
        trainer.step(lambda x=x: network(x).square().mean(),
                     lambda: nn.utils.clip_grad_norm_(network.parameters(), 1e-3))  # fmt: skip
    assert torch.equal(network.weight, before)
    trainer.close()
    assert 0 < float((network.weight.detach() - before).norm()) <= 2 * LR * 1e-3 * (1 + 1e-3)


def test_after_close_the_optimizer_is_as_before():
    network, optimizer, trainer = made()
    steps = dict(optimizer._optimizer_step_post_hooks)
    trainer.close()
    assert len(steps) == 1 and not optimizer._optimizer_step_post_hooks and not network._forward_hooks


def test_what_it_refuses():
    network, _, trainer = made()
    with pytest.raises(ValueError, match="which is for SGD, not for Adam"):
        Deferred(network, torch.optim.Adam(network.parameters()), schedule(1, (1, 3, 1)))
    plain = AdaGP(network, torch.optim.SGD(network.parameters(), LR), schedule(1, (1, 3, 1)))
    with pytest.raises(ValueError, match="isn't one of Deferred's"):
        trainer.load_state_dict(plain.state_dict())
