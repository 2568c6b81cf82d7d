"""The bench of the estimator: strata, errors, and a run of both parts that goes on from what is kept."""

import json
from dataclasses import replace

import pytest
from adagp.evaluation.benches import estimate
from random_programs import DESIGNS

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A design whose simulator other tests share, and small networks."""
    monkeypatch.setattr(estimate, "config_of", lambda size, variant: replace(DESIGNS["baseline"], variant=variant))
    monkeypatch.setattr(estimate, "SHAPE", (1, 8, 8))
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


def test_every_stratum_gives_commands(small):
    _, network = estimate.network_of("digits-cnn", estimate.config_of("tiny", "max"))
    chosen = estimate.drawn({"digits-cnn": network}, each=2)
    kinds = [estimate.stratum(network.program[index].command) for _, index in chosen]
    assert len(set(chosen)) == len(chosen) and max(kinds.count(kind) for kind in kinds) == 2
    assert {"forward", "backward_data", "backward_weight", "maxpool", "maxpool_backward", "update", "adam",
            "reorganise", "predictor forward"} <= set(kinds)  # fmt: skip
    assert chosen == estimate.drawn({"digits-cnn": network}, each=2)
    assert estimate.drawn({"digits-cnn": network}, each=2, most=1) == []


def test_both_parts(small, capsys):
    given = ["--networks", "digits-cnn", "--variants", "baseline", "--preset", "tiny", "--each", "1", "--json"]
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
