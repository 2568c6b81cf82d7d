"""Methods, what they cost, synthetic gradients, runs that stop and go on, and the comparison at equal cost."""

import json
import math
from dataclasses import replace

import pytest
import torch
from adagp.algorithm import PAPER, PredictorSettings, schedule
from adagp.experiments import runs
from adagp.experiments.data import load
from adagp.experiments.methods.costs import batch_costs
from adagp.experiments.methods.dni import HIDDEN, Dni
from adagp.experiments.methods.ideas import IDEAS
from adagp.experiments.methods.methods import ALL_METHODS, METHODS, Method
from adagp.experiments.regimes import REGIMES
from adagp.experiments.runs import Run, _macs, execute
from adagp.experiments.tasks import CLASSIFICATION
from adagp.experiments.workers import data_of
from adagp.spec.commands import Phase
from adagp.spec.schedule import SOURCES
from small_experiments import TINY_REGIME
from torch import nn
from torch.nn import functional as F


def test_costs_by_hand():
    """A convolution of 2 to 3 channels on 4 x 4 pixels and a linear layer of 48 to 5, a batch of 2."""
    network = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Flatten(), nn.Linear(48, 5))
    costs = batch_costs(network, lambda net: net(torch.zeros(2, 2, 4, 4)), PredictorSettings(windows=2, channels=3))
    conv, linear = 2 * 16 * 3 * 18, 2 * 5 * 48
    assert (costs.forward, costs.data, costs.weight) == (conv + linear, linear, conv + linear)
    predictor_conv, predictor_linear = (3 + 5) * 9 * 12, (3 * 18 + 5 * 48) * 12
    assert costs.predict == predictor_conv + predictor_linear
    assert costs.learn == predictor_conv + 2 * predictor_linear
    assert costs.guess == 2 * HIDDEN * (2 * 3 * 16 + 2 * 5)
    assert costs.bp == 2 * conv + 3 * linear
    assert costs.of("gp", "predicted") == costs.forward + costs.predict
    assert costs.of("bp", "random") == costs.bp + costs.predict + costs.learn
    assert costs.of("gp", "mean") == costs.of("gp", "skip") == 0 and costs.of("bp", "mean") == costs.bp
    assert costs.of("gp", "dni") == costs.forward + costs.weight + costs.guess
    # Learning: forward of two layers, both weights' gradients, the hidden values' gradient: 5 of what forward has 2.
    assert costs.of("bp", "dni") == costs.bp + 5 * HIDDEN * (2 * 3 * 16 + 2 * 5)
    assert network.training and not any(module._forward_hooks for module in network.modules())
    embedded = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 3))  # backward goes on to the embedding
    costs = batch_costs(embedded, lambda net: net(torch.zeros(2, 5, dtype=torch.long)), PredictorSettings())
    assert costs.data == costs.forward == 2 * 5 * 3 * 4


def test_schedules():
    assert METHODS["ada-gp"].schedule(90) == PAPER
    assert METHODS["ada-gp-1:1"].schedule(18) == schedule(2, (1, 1, 1))
    assert METHODS["bp-0.55"].schedule(11) == schedule(11)
    assert METHODS["ada-gp-raw"].predictor == PredictorSettings.paper()
    assert METHODS["ada-gp-1:1"].planned(18, 3) == {"warmup": 6, "gp": 24, "bp": 24}
    assert METHODS["ada-gp-2:1"].planned(18, 3) == {"warmup": 6, "gp": 32, "bp": 16}
    assert METHODS["skip-1:2"].planned(18, 3) == {"warmup": 6, "gp": 16, "bp": 32}
    assert METHODS["skip-1:2"].source == "skip" and METHODS["ada-gp-1:2"].source == "predicted"
    assert METHODS["bp-0.4"].planned(4, 3) == {"warmup": 12}
    assert METHODS["half-1:0"].planned(18, 3) == {"warmup": 6, "gp": 48}
    assert METHODS["ada-gp-gated"].planned(18, 3) == {"warmup": 6, "bp": 48}


def test_costs_of_a_predictor_that_learns_seldom():
    costs = batch_costs(nn.Sequential(nn.Linear(4, 3)), lambda net: net(torch.zeros(2, 4)), PredictorSettings())
    phases, learning = {"warmup": 3, "bp": 4, "gp": 5}, costs.predict + costs.learn
    every, seldom = (_macs(costs, METHODS[name], phases) for name in ("ada-gp", "ada-gp-every-4"))
    assert every - seldom == 5 * learning > 0, "two of the seven batches with true gradients teach"


def dni(seed=0):
    torch.manual_seed(3)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    return network, Dni(network, optimizer, schedule(1, (1, 1, 0)), 3, seed=seed)


def test_synthetic_gradients_that_are_true_train_as_backpropagation():
    """With the true gradient for a guess, a GP batch moves all weights as a BP batch does."""
    x, y = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 0, 1])
    plain, _ = dni()
    gradients = {}
    for place in (0, 3):
        plain[place].register_forward_hook(
            lambda m, x, output, place=place: output.register_hook(lambda g: gradients.update({place: g})) and None
        )
    F.cross_entropy(plain(x), y).backward()
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter -= 0.1 * parameter.grad
    network, trainer = dni()
    for guesser, place in zip(trainer.guessers, (0, 3), strict=True):
        guesser.scale.fill_(1)
        guesser.forward = lambda output, labels, place=place: gradients[place]
    for _ in trainer.epoch(range(0)):
        pass
    trainer.step(lambda: F.cross_entropy(network(x), y), y)
    assert trainer.phase is Phase.GP
    for mine, theirs in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_guessers_see_outputs_before_what_changes_them_in_place():
    """An activation in place behind a layer makes no difference to what its guesser learns."""

    def trained(inplace):
        network, trainer = dni()
        network[1] = nn.ReLU(inplace=inplace)
        generator = torch.Generator().manual_seed(5)
        for _ in range(3):
            x, y = torch.randn(6, 1, 8, 8, generator=generator), torch.randint(0, 3, (6,), generator=generator)
            trainer.step(lambda x=x, y=y: F.cross_entropy(network(x), y), y)
        return trainer.guessers.state_dict()

    plain, inplace = trained(False), trained(True)
    assert all(torch.equal(value, inplace[name]) for name, value in plain.items())
    assert float(plain["0.scale"]) > 0


def test_guessers_learn_what_depends_on_the_label():
    network, trainer = dni()
    generator, losses = torch.Generator().manual_seed(2), []
    for _ in range(300):
        y = torch.randint(0, 3, (16,), generator=generator)
        output = None

        def compute(y=y):
            nonlocal output
            output = network(torch.zeros(16, 1, 8, 8))
            return (output * F.one_hot(y, 3)).sum() / 16

        trainer.step(compute, y)
        with torch.no_grad():
            guess = trainer.guessers[1](output, y) * trainer.guessers[1].scale.sqrt()
            losses.append(float((guess - F.one_hot(y, 3) / 16).square().mean()))
    assert losses[-1] < losses[0] / 20


@pytest.mark.parametrize("method", ["bp-0.7", "ada-gp", "ada-gp-deferred", "mean-1:1", "dni-1:1", "skip", "narrow-1:1",
                                    "late-mean-1:1", "coarse", "stale-hybrid"])  # fmt: skip
def test_a_run_goes_on_as_if_it_had_not_stopped(method, tmp_path, monkeypatch):
    data = data_of(TINY_REGIME, None)
    run = Run("tiny", "small-cnn", method, 3, 0.05, 4, 64, 8, 1)
    whole = execute(run, data)
    assert sum(whole.batches.values()) == 4 * round(4 * ALL_METHODS[method].share) and whole.macs > 0

    class Stopped(Exception):
        pass

    saves = []

    def save(*arguments):
        saves.append(arguments[2])
        real(*arguments)
        if len(saves) == 2:
            raise Stopped

    real = runs.save
    monkeypatch.setattr(runs, "save", save)
    with pytest.raises(Stopped):
        execute(run, data, folder=tmp_path)
    again = execute(run, data, folder=tmp_path)
    assert saves[:2] == [1, 2] and json.dumps(again.losses) == json.dumps(whole.losses)
    assert (again.validation, again.test, again.batches) == (whole.validation, whole.test, whole.batches)


def test_networks_on_a_cpu_are_channels_last():
    run = Run("tiny", "small-cnn", "bp-1", 3, 0.05, 1, 64, 8, 1)
    training = runs._Training(run, data_of(TINY_REGIME, None), CLASSIFICATION, False)
    assert training.network[3].weight.is_contiguous(memory_format=torch.channels_last)


def test_runs_that_differ_have_other_names():
    run = Run("tiny", "small-cnn", "bp-0.7", 3, 0.05, 4, 64, 8, 1)
    assert run.identity == replace(run).identity
    others = [replace(run, **change) for change in ({"optimizer": "adam"}, {"lr_schedule": "plateau"},
              {"device": "cuda"}, {"autocast": "bf16"}, {"momentum": 0.5}, {"epochs": 5})]  # fmt: skip
    assert len({run.identity, *(other.identity for other in others)}) == 7


def test_a_run_that_diverges_says_so():
    outcome = execute(Run("tiny", "small-cnn", "bp-1", 0, 1e4, 2, 64, 8, 1), data_of(TINY_REGIME, None))
    assert math.isnan(outcome.validation) and math.isnan(outcome.test)
    assert len(outcome.losses) == 1 and outcome.macs == outcome.whole  # as if it had come to its end
    assert outcome.batches == {"warmup": 8}


def test_regimes_prepare_the_same_images():
    small = data_of(replace(TINY_REGIME, image_size=4, images=100), None)
    whole = load("digits")
    again = data_of(replace(TINY_REGIME, image_size=4, images=100), None)
    assert len(small.train) == 100 and (small.train.images_NCHW == again.train.images_NCHW).all()
    assert small.test.images_NCHW.shape[2:] == (4, 4) and len(small.test) == len(whole.test)
    block = whole.test.images_NCHW[0, 0, :2, :2].mean()
    assert small.test.images_NCHW[0, 0, 0, 0] == pytest.approx(block, rel=1e-6)
    batch, _ = small.train.batch(range(100), lambda _: None)
    assert abs(float(batch.mean())) < 1e-5 and float(batch.std()) == pytest.approx(1, abs=1e-2)
    assert {r.data for r in REGIMES.values()} == {"digits", "fashion-mnist", "cifar10"}


def test_methods_cover_the_sources():
    assert {m.source for m in METHODS.values()} == {*SOURCES, "dni", *IDEAS}
    assert all(isinstance(m, Method) for m in METHODS.values())
