"""The predictor: what it learns, how its predictions are measured, and the gate that looks at that."""

import json
import math

import pytest
import torch
from adagp import AdaGP, PredictorSettings, schedule
from adagp.algorithm.metrics import MEASURES, Metrics, measure
from adagp.spec.commands import Phase
from torch import nn
from torch.nn import functional as F
from torch_networks import conv_network, image_batches, weights_of


def test_measures_by_hand():
    """Equation 1 and the others, of four gradients of which one is zero."""
    values = measure(torch.tensor([[1.0, -1.0], [2.0, 3.0]]), torch.tensor([[2.0, 1.0], [4.0, 0.0]]))
    p, t = math.sqrt(15), math.sqrt(21)
    expected = [(0.5 + 2 + 0.5) / 3, (1 + 4 + 4 + 9) / 4, (2 - 1 + 8) / (p * t), 2 / 3, p / t, 1 / 4]
    torch.testing.assert_close(values, torch.tensor(expected))


def test_metrics_of_an_epoch(tmp_path):
    metrics = Metrics()
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    metrics.add("bp", "a", one, two)
    metrics.add("bp", "a", two, two)
    metrics.add("bp", "a", torch.zeros(1), two)  # no cosine
    metrics.add("warmup", "b", two, one)
    metrics.end_epoch(7)
    row, other = metrics.rows
    assert (row["epoch"], row["phase"], row["layer"], row["batches"]) == (7, "bp", "a", 3)
    assert row["mape"] == pytest.approx(0.5) and row["cosine"] == 1 and row["mse"] == pytest.approx(5 / 3)
    assert other["norm_ratio"] == 2
    metrics.write_json(tmp_path / "m.json")
    metrics.write_csv(str(tmp_path / "m.csv"))
    assert [r["layer"] for r in json.loads((tmp_path / "m.json").read_text())] == ["a", "b"]
    assert len((tmp_path / "m.csv").read_text().splitlines()) == 3
    assert len(list(metrics.scalars())) == 2 * len(MEASURES)


def test_predictions_are_measured_as_they_were():
    """By the scale of batches before: a gradient of ten times the size has been predicted a tenth as large."""
    torch.manual_seed(0)
    network = nn.Linear(4, 4, bias=False)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 0.0), schedule(1), predictor=PredictorSettings(lr=1e-9))
    for factor in (1, 1, 10):
        ada.step(lambda factor=factor: factor * network(torch.ones(1, 4)).sum())
        ada.end_epoch()
    first, second, third = (row["norm_ratio"] for row in ada.metrics.rows)
    assert first == 0 and third == pytest.approx(second / 10, rel=1e-3) and second > 0


def test_pytorch_s_generator_stays_as_it_is():
    """So that with and without it examples come in the same order."""
    network = conv_network()
    before = torch.get_rng_state()
    AdaGP(network, torch.optim.SGD(network.parameters(), 0.1))
    assert torch.equal(torch.get_rng_state(), before)


def learnable(gate=None):
    """A network whose gradient the predictor can learn: it is its output, but for a factor."""
    torch.manual_seed(0)
    network = nn.Linear(1, 8, bias=False)
    ada = AdaGP(network, torch.optim.SGD(network.parameters(), 1e-3), schedule(0, (1, 1, 1)), gate=gate,
                predictor=PredictorSettings(lr=1e-2))  # fmt: skip
    return network, ada, lambda: network(torch.ones(1, 1)).square().sum()


def test_the_predictor_learns_what_can_be_learned():
    network, ada, compute = learnable()
    for _ in range(1500):
        ada.step(compute)
    ada.end_epoch()
    torch.nn.init.normal_(network.weight, generator=torch.Generator().manual_seed(5))
    for _ in range(2):
        ada.step(compute)
    ada.end_epoch()
    assert ada.metrics.rows[-1]["cosine"] > 0.95


def test_the_gate_opens_with_quality():
    _, ada, compute = learnable(gate=0.9)
    phases = []
    for _ in range(1500):
        ada.step(compute)
        phases.append(ada.phase)
    assert phases[0] is Phase.BP
    first = phases.index(Phase.GP)
    assert first > 1 and Phase.GP in phases[-2:]
    ada._teacher._gate = 1.0  # nothing is as good
    for _ in range(4):
        ada.step(compute)
    assert ada.phase is Phase.BP


@pytest.mark.parametrize("source", ["zero", "last", "mean", "skip"])
def test_a_predictor_that_nothing_needs_is_not_taught(source):
    """The network is trained as with one that is; with metrics or a gate there is a need."""

    def trained(**settings):
        network = conv_network()
        optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
        ada = AdaGP(network, optimizer, schedule(1, (2, 1, 1)), source=source, **settings)
        before = weights_of(ada.predictor)
        for number, (x, y) in enumerate(image_batches(6)):
            ada.step(lambda x=x, y=y: F.cross_entropy(network(x), y))
            if number == 1:
                ada.end_epoch()
        taught = any(not torch.equal(before[name], value) for name, value in weights_of(ada.predictor).items())
        return weights_of(network), taught

    (plain, idle), (measured, taught), (_, judged) = trained(metrics=False), trained(), trained(metrics=False, gate=-1)
    assert (idle, taught, judged) == (False, True, True)
    assert all(torch.equal(plain[name], value) for name, value in measured.items())
