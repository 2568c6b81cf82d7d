"""Batches with values that aren't finite, and those that break off: they leave network and predictor as they were."""

import copy
import warnings

import pytest
import torch
from adagp import AdaGP, PredictorSettings, schedule
from adagp.algorithm.finite import not_finite
from adagp.spec.commands import Phase
from torch import nn
from torch.nn import functional as F
from torch_networks import image_batches, weights_of
from trained import without_statistics

GP_AFTER_ONE = schedule(1, (1, 1, 0))


def _step(ada, network, x, y, clip=None):
    return ada.step(lambda: F.cross_entropy(network(x), y), clip)


def _trained(**options):
    """A network after one BP batch, at the beginning of GP batches."""
    network, (batch,) = without_statistics(), image_batches(1)
    optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9, weight_decay=0.1)
    ada = AdaGP(network, optimizer, GP_AFTER_ONE, **options)
    for _ in ada.epoch(range(1)):
        _step(ada, network, *batch)
    return network, optimizer, ada


def _spoilt(x, how):
    if how == "empty":
        return x[:0]
    x = x.clone()
    x[1, 2, 3, 4] = float(how)
    return x


@pytest.mark.parametrize("weights_at_once", [1, 9])
@pytest.mark.parametrize("source", ["predicted", "random"])
@pytest.mark.parametrize("how", ["inf", "-inf", "nan", "empty"])
def test_a_gp_batch_that_is_not_finite_is_as_if_it_had_not_been(how, source, weights_at_once):
    network, optimizer, ada = _trained(source=source, weights_at_once=weights_at_once)
    before, state = weights_of(network), copy.deepcopy(optimizer.state_dict())
    predictor, called = weights_of(ada.predictor), []
    (x, y), (later, labels) = image_batches(2, seed=3)
    x = _spoilt(x, how)
    with pytest.warns(
        RuntimeWarning, match=r"predicted gradients of 0\.weight aren't finite; this GP batch is skipped"
    ):
        _step(ada, network, x, y[: len(x)], lambda: called.append(1))
    assert ada.phase is Phase.GP and not called
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert str(optimizer.state_dict()) == str(state)
    assert all(torch.equal(predictor[name], value) for name, value in ada.predictor.state_dict().items())
    _step(ada, network, later, labels, lambda: called.append(1))
    moved = [name for name, value in network.state_dict().items() if not torch.equal(before[name], value)]
    assert moved == ada.predicted and called == [1]
    assert all(value.isfinite().all() for value in network.state_dict().values())


def test_layers_that_ran_before_the_bad_one_stay_too():
    network, x = nn.ModuleDict({"first": nn.Linear(4, 3), "second": nn.Linear(4, 3)}), torch.ones(2, 4)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.1), GP_AFTER_ONE)

    def train(other):
        ada.step(lambda: (network["first"](x) + network["second"](other)).square().mean())

    train(x)
    ada.end_epoch()
    before = weights_of(network)
    with pytest.warns(RuntimeWarning, match=r"gradients of second\.weight aren't finite"):
        train(x * torch.inf)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    train(x)
    assert not torch.equal(before["first.weight"], network["first"].weight)


@pytest.mark.parametrize("source", ["predicted", "last", "mean"])
def test_a_bp_batch_whose_gradients_are_cleared_teaches_nothing(source):
    """As a guard does that has found a value that isn't finite; plain training goes on from there."""
    network, batches = without_statistics(), image_batches(3)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.05), GP_AFTER_ONE, source=source)

    def clear():
        gradients = [p.grad for p in network.parameters()]
        assert not all(gradient.isfinite().all() for gradient in gradients)
        for gradient in gradients:
            gradient.zero_()

    _step(ada, network, *batches[0])
    before, predictor, kept = weights_of(network), weights_of(ada.predictor), copy.deepcopy(ada.source.kept)
    with pytest.warns(RuntimeWarning, match="outputs that .* makes aren't finite; nothing is learned from this batch"):
        _step(ada, network, _spoilt(batches[1][0], "inf"), batches[1][1], clear)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(torch.equal(predictor[name], value) for name, value in ada.predictor.state_dict().items())
    assert kept.keys() == ada.source.kept.keys() and all(torch.equal(kept[n], g) for n, g in ada.source.kept.items())
    ada.end_epoch()
    _step(ada, network, *batches[2])
    assert ada.phase is Phase.GP and all(value.isfinite().all() for value in network.state_dict().values())
    assert not torch.equal(before["0.weight"], network[0].weight)


@pytest.mark.parametrize("settings", [PredictorSettings(), PredictorSettings.paper()])
def test_a_step_of_the_predictor_that_is_not_finite_is_left_out(settings):
    """Gradients are finite, and their squares aren't: a scale or a moment of Adam would be infinite for good."""
    network, (batch,) = without_statistics(), image_batches(1)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 1e-36), schedule(9), predictor=settings)
    _step(ada, network, *batch)
    predictor, adam = weights_of(ada.predictor), str(ada.state_dict()["optimizer"])
    with pytest.warns(RuntimeWarning, match="the predictor's own gradients aren't finite; it learns nothing"):
        ada.step(lambda: F.cross_entropy(network(batch[0]), batch[1]) * 1e32)
    assert all(torch.equal(predictor[name], value) for name, value in ada.predictor.state_dict().items())
    assert str(ada.state_dict()["optimizer"]) == adam
    _step(ada, network, *batch)
    assert not torch.equal(predictor["fc.weight"], ada.predictor.fc.weight)


@pytest.mark.parametrize("phase", [Phase.BP, Phase.GP])
def test_a_batch_whose_clip_raises_is_as_if_it_had_not_been(phase):
    """With a GradScaler, too, which refuses to unscale twice between two updates."""

    def ends(*clips):
        network, (batch,) = without_statistics(), image_batches(1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
        optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
        table = schedule(1, (1, 1, 0) if phase is Phase.GP else (1, 0, 1))
        ada = AdaGP(network, optimizer, table, scaler=scaler)
        for _ in ada.epoch(range(1)):
            _step(ada, network, *batch)
        for clip in clips:
            try:
                _step(ada, network, *batch, clip)
            except ZeroDivisionError:
                assert clip
                continue
            assert clip is None and ada.phase is phase
        return weights_of(network), weights_of(ada.predictor), scaler.state_dict()

    (network, predictor, scaler), (others, other, same) = (
        ends(None, None),
        ends(lambda: 1 // 0, None, lambda: 1 // 0, None),
    )
    assert all(torch.equal(others[name], value) for name, value in network.items())
    assert all(torch.equal(other[name], value) for name, value in predictor.items())
    assert scaler == same


def test_plain_training_is_not_warned():
    """Gradients aren't checked if nobody learns from them."""
    network, (batch,) = without_statistics(), image_batches(1)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.05), schedule(9), source="skip", metrics=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _step(ada, network, _spoilt(batch[0], "nan"), batch[1])
    assert network[0].weight.isnan().any()


def test_not_finite():
    bad = {"inf": torch.tensor([[1.0, torch.inf]]), "nan": torch.tensor(torch.nan), "minus": torch.tensor([-torch.inf])}
    good = {"a": torch.zeros(2, 3), "large": torch.tensor([-3e38, 3e38]), "half": torch.full((9,), 6e4).half()}
    assert not_finite({**good, **bad}) == list(bad) and not_finite(good) == [] == not_finite({})
    assert not_finite({**good, **bad}, squares=True) == ["large", "half", *bad]
