"""Networks cut into stages, and the bench of stale weights with made-up outcomes and with very short runs."""

import json

import pytest
import torch
from adagp.evaluation.benches import stale_weights as bench
from adagp.experiments.methods.methods import STALE_METHODS
from adagp.experiments.methods.stale import cut, delays, described, expected_memory
from adagp.experiments.networks.models import SMALL_MODELS, build
from torch import nn


@pytest.mark.parametrize("model", SMALL_MODELS)
def test_stages_are_the_network(model):
    network = build(model, 7, 16).eval()
    x = torch.randn(2, 3, 16, 16)
    counts = [len(cut(network, depth)) for depth in (0.0, 0.5, 1.0)]
    layers = {"small-cnn": 5, "small-cnn5": 7, "small-resnet": 5, "lenet5": 5, "small-vgg": 8, "resnet20": 11}[model]
    assert counts == [2, 1 + round(0.5 * (layers - 1)), layers]
    with torch.no_grad():
        assert torch.equal(nn.Sequential(*cut(network, 1.0))(x), network(x))


def test_delays_and_memory_are_told():
    assert delays("stale-registers", 4) == (6, 4, 2, 0) and delays("stale-1f1b", 4) == (3, 2, 1, 0)
    method = STALE_METHODS["stale-early"].pipelining
    rows = expected_memory(build("lenet5", 10, 28, channels=1), method, torch.zeros(2, 1, 28, 28))
    line = described(rows, method)
    assert [row.missed for row in rows] == [2, 0] and "by stage: 2, 0;" in line and "PipeDream: 1,248 bytes" in line
    with pytest.raises(ValueError, match="a network of 1 layers can't be cut"):
        cut(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), 0.5)
    with pytest.raises(ValueError, match="Linear can't be cut: it must be a Sequential"):
        cut(nn.Linear(2, 2), 0.5)


def outcome(test, lr=0.1, validation=50.0):
    return {"test": test, "validation": validation, "run": {"lr": lr}}


def test_figures_by_hand():
    """Drops of 1 and 3 points: 2 with an error of 1; a run that diverged counts as 0."""
    found = bench.figures_of("n", {"bp-1": [outcome(60.0), outcome(64.0)], "a": [outcome(59.0), outcome(61.0)],
                                   "b": [outcome(60.0), outcome(None)]})  # fmt: skip
    assert found["seeds_n"] == 2 and found["accuracy_bp-1_n"] == 62.0
    assert (found["drop_a_n"], found["drop_error_a_n"], found["diverged_a_n"]) == (2.0, 1.0, 0)
    assert (found["accuracy_b_n"], found["drop_b_n"], found["diverged_b_n"]) == (30.0, 32.0, 1)
    assert bench.chosen([outcome(1, 0.1, 40.0), outcome(1, 0.2, None), outcome(1, 0.3, 40.0)]) == 0.1


def test_results(tmp_path, monkeypatch):
    """A bench on digits runs nothing again at its second command, and counts the memory that the formula says."""
    case = bench.Case("small-cnn", "digits", "", 8, 1, 320, 1, (0.01, 0.05), ("bp-1", "stale-deep"))
    given = (["--networks", "lenet5", "--data-dir", str(tmp_path), "--seeds", "1", "-o", str(tmp_path / "r.json")],
             tmp_path / "work", {"lenet5": case})  # fmt: skip
    told = []
    bench.main(*given, told.append)
    written = json.loads((tmp_path / "r.json").read_text())
    figures = written["figures"]
    assert figures["missed_most_small-cnn"] == 8 and f"seeds_lenet5: {figures['seeds_lenet5']}" in told
    for scheme in ("stale", "pipedream"):
        assert figures[f"counted_{scheme}_small-cnn"] == figures[f"memory_{scheme}_small-cnn"] > 0
    assert len(written["details"]["lenet5"]["details"]["tuning"]) == 4
    monkeypatch.setattr("adagp.experiments.workers.execute", None)
    bench.main(*given, told.append)
    assert json.loads((tmp_path / "r.json").read_text())["figures"] == figures
