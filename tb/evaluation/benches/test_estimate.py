"""The bench of the estimator: strata, errors, and a run of both parts that goes on from what is kept."""

import json
from collections import Counter
from dataclasses import replace

import pytest
import torch
from adagp.evaluation.benches import estimate
from adagp.evaluation.instruments.command_samples import needs_switches, read_samples, sampled, stratum
from adagp.evaluation.instruments.drawn_layers import alone, layers_of, switched
from adagp.host.training.network import Network
from random_programs import DESIGNS
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A design whose simulator other tests share, and small networks."""
    monkeypatch.setattr(estimate, "design", lambda size, variant, _: replace(DESIGNS["baseline"], variant=variant))
    monkeypatch.setattr(estimate, "SHAPE", (1, 8, 8))
    few = replace(estimate.DRAWN[False], networks=("digits-cnn",))
    monkeypatch.setattr(estimate, "DRAWN", {False: few})
    monkeypatch.setattr(estimate, "DRAWN_SIDE", 16)
    monkeypatch.setattr(estimate, "WORK", tmp_path / "work")
    return tmp_path / "estimate.json"


def test_errors_are_magnitudes():
    rows = [{"estimated_x": ours, "simulated_x": theirs} for ours, theirs in ((99, 100), (0, 0), (103, 100), (1, 0))]
    assert estimate.errors(rows, "x") == pytest.approx([0, 0.01, 0.03, 1])
    many = [{f"{side}_{name}": 100 + (side == "estimated") * error for name in estimate.COUNTED
             for side in ("estimated", "simulated")} for error in (0, -1, 2, 10)]  # fmt: skip
    found = estimate.figures(many, "here")
    assert (found["here"], found["error_median_here"], found["error_worst_here"]) == (4, 0.015, 0.1)
    assert found["read_error_here"] == found["write_error_here"] == 0.1


def test_rare_strata_come_first(small):
    config, seen = estimate.design("tiny", "max", False), Counter()
    shape, module = alone(("features.3", nn.Conv2d(8, 8, 3, padding=1), (8, 6, 6)))
    network = Network(module, shape, 2, config, source="predicted")
    few, rest = (list(sampled(("vgg13", "features.3"), network, n, seen, 1, lambda _: True)) for n in (3, 99))
    kinds = [stratum(sample.command) for sample in (*few, *rest)]
    assert len(set(kinds[:3])) == 3 and not set(kinds[:3]) & set(kinds[3 : len(set(kinds))])
    assert {"forward", "backward_data", "backward_weight", "update", "adam", "reorganise", "predictor forward",
            "predictor backward_weight"} <= set(kinds)  # fmt: skip
    assert list(sampled(("vgg13", "features.3"), network, 4, seen, 1, lambda _: False)) == []


def test_layers_of_several_kinds():
    module = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, groups=8), nn.Flatten(),
                           nn.Linear(8 * 25, 4))  # fmt: skip
    seen = Counter({"3x3 of stride 2": 1})
    found = layers_of(module, [torch.zeros(1, 3, 15, 15)], seen, "1")
    assert {name: shape for name, _, shape in found[:3]} == {"1": (8, 7, 7), "2": (8, 7, 7), "4": (200, 1, 1)}
    assert found[3][0] == "0" and len(found) == 4


def test_samples_of_another_design_are_refused():
    own = estimate.SAMPLES[False]
    samples = read_samples(own, estimate.design("ecp5", "baseline", False))
    assert len(samples) >= 60 and {sample.network for sample in samples} == set(estimate.PAPER) - {"transformer"}
    assert {sample.variant for sample in samples} == set(estimate.VARIANTS)
    with pytest.raises(ValueError, match="are of another design than tiny: draw them anew"):
        read_samples(own, estimate.design("tiny", "baseline", False))
    special = read_samples(estimate.SAMPLES[True], estimate.design("ecp5", "baseline", True))
    assert len(special) >= 60 and all(needs_switches(sample.command) for sample in special)


def test_commands_that_need_switches():
    """Layers of each kind that needs a switch, and the strata that only switches build."""
    depthwise, plain = nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 8, 3)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    kinds = {
        nn.ReLU6(): "bounded forward", nn.LeakyReLU(): "sloped forward", nn.Dropout(): "dropping avgpool",
        depthwise: "depthwise_backward_weight", attention: "product backward_data",
    }  # fmt: skip
    for layer, kind in kinds.items():
        shape, module = alone(("1", layer, (8, 5, 5)))
        commands = [line.command for line in Network(module, shape, 2, DESIGNS["baseline"]).program]
        assert kind in {stratum(command) for command in commands if needs_switches(command)}
    found = layers_of(nn.Sequential(plain, *list(kinds)[:4]), [torch.zeros(1, 8, 9, 9)], Counter(), "1", switched)
    assert {name for name, *_ in found} == {"1", "2", "3", "4"}


def test_both_parts(small):
    samples = str(small.with_name("samples.json"))
    estimate.main(["--draw", "--preset", "tiny", "--each", "7", "--samples", samples])
    given = ["--networks", "digits-cnn", "--variants", "baseline", "--preset", "tiny", "--samples", samples, "--json"]
    estimate.main([*given, str(small)])
    first = json.loads(small.read_text())
    found = first["figures"]
    assert found["commands_tiny"] >= 6 and found["batches_tiny"] == 1
    for part in ("commands_tiny", "batches_tiny"):
        assert found[f"write_error_{part}"] == 0 and found[f"read_error_{part}"] <= 0.001
        assert 0 < found[f"error_median_{part}"] <= found[f"error_worst_{part}"] < 0.1
    rows = first["details"]["commands_tiny"]["details"]
    assert {row["kind"] for row in rows} >= {"forward", "update"} and all(row["simulated_cycles"] > 0 for row in rows)
    kept = {path: path.stat().st_mtime_ns for path in estimate.WORK.rglob("*.json")}
    estimate.main([*given, str(small)])
    assert json.loads(small.read_text())["figures"] == found
    assert {path: path.stat().st_mtime_ns for path in estimate.WORK.rglob("*.json")} == kept != {}
