"""The bench of all methods at equal cost, in a regime that takes seconds."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.evaluation.benches import accelerator_cycles, accuracy
from adagp.evaluation.benches.accelerator_cycles import HALF, PLAIN, cycles_of, measured, settings_of
from adagp.experiments import comparison
from adagp.experiments.regimes import REGIMES
from adagp.host.training.data import Dataset
from adagp.host.training.session import open_session
from adagp.spec.schedule import SOURCES
from small_experiments import LAYERS, TINY_REGIME

CYCLES = {"mean": {"warmup": 110, "bp": 120, "gp": 30}, "predicted": {"warmup": 130, "bp": 140, "gp": 200}}
"""Cycles of the designs that predict; predictions are dearer here than plain training, which takes 100 a batch."""


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["bench_accuracy", *map(str, arguments)])
    try:
        accuracy.main()
        code = 0
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The bench has another regime, and a simulator that counts nothing; returns what that was asked."""
    asked = []

    def counted(settings, dataset, seen):
        asked.append(settings)
        if settings.variant == "baseline":
            return {"warmup": 100 if settings.batch == TINY_REGIME.batch_size else 60}
        return CYCLES[settings.gradient_source]

    monkeypatch.setitem(REGIMES, "tiny", TINY_REGIME)
    monkeypatch.setattr(accelerator_cycles, "batch_cycles", counted)
    monkeypatch.setattr(accelerator_cycles, "hardware_digest", lambda config: config.name)  # four designs otherwise
    monkeypatch.setattr(accuracy, "WORK", tmp_path / "work")
    return asked


def test_figures_of_a_regime(tiny, monkeypatch, capsys, tmp_path):
    output = tmp_path / "accuracy.json"
    output.write_text(json.dumps({"figures": {"kept": 1}, "details": {"other": {"figures": ["kept"], "details": 0}},
                                  "provenance": {"other": {}}}))  # fmt: skip
    methods = "bp-1,bp-0.4,mean-1:1,ada-gp-1:1,dni-1:1"
    arguments = ("--regimes", "tiny", "--methods", methods, "--seeds", 2, "--output", output)
    code, out, _ = run(monkeypatch, capsys, *arguments)
    assert code == 0 and "tiny: cost in cycles" in out
    found = json.loads(output.read_text())
    figures, details = found["figures"], found["details"]["tiny"]["details"]
    assert figures["kept"] == 1 and found["provenance"]["tiny"]["seed"] == [1000, 1001, 1002, 1003, 0, 1]
    assert figures["cost_tiny_bp-1"] == figures["cycles_tiny_bp-1"] == 1
    assert figures["cost_tiny_bp-0.4"] == figures["cycles_tiny_bp-0.4"] == pytest.approx(1 / 3, abs=1e-4)
    mean = details["methods"]["mean-1:1"]
    assert mean["runs"][0]["batches"] == {"warmup": 4, "gp": 4, "bp": 4}
    at = (4 * 110 + 4 * 120 + 4 * 30) / 1200
    assert figures["cycles_tiny_mean-1:1"] == pytest.approx(at, abs=1e-4)
    assert figures["cycles_tiny_ada-gp-1:1"] == pytest.approx((4 * 130 + 4 * 140 + 4 * 200) / 1200, abs=1e-4)
    assert figures["cost_tiny_mean-1:1"] == pytest.approx(2 / 3, abs=1e-4)
    assert figures["accuracy_tiny_mean-1:1"] == pytest.approx(np.mean([r["test"] for r in mean["runs"]]), abs=1e-4)
    line = [np.interp(2 / 3, [1 / 3, 1], [details["methods"][m]["runs"][s]["test"] for m in ("bp-0.4", "bp-1")])
            for s in (0, 1)]  # fmt: skip
    above = np.mean([r["test"] - at for r, at in zip(mean["runs"], line, strict=True)])
    assert figures["above_tiny_mean-1:1"] == pytest.approx(above, abs=1e-3)
    line = [np.interp(at, [1 / 3, 1], [details["methods"][m]["runs"][s]["test"] for m in ("bp-0.4", "bp-1")])
            for s in (0, 1)]  # fmt: skip
    above = np.mean([r["test"] - at for r, at in zip(mean["runs"], line, strict=True)])
    assert details["by_cycles"]["mean-1:1"]["above"] == pytest.approx(above)
    assert "cycles_tiny_dni-1:1" not in figures and "cost_tiny_dni-1:1" in figures
    predicted = details["methods"]["ada-gp-1:1"]["quality"]
    assert list(predicted) == list(LAYERS) and all(-1 <= row["cosine"] <= 1 for row in predicted.values())
    assert not mean["quality"]
    ended = [json.loads(path.read_text()) for path in (tmp_path / "work").glob("tiny-*/outcomes/*.json")]
    rows = [row for one in ended if one["run"]["method"] == "ada-gp-1:1" and one["run"]["seed"] in (0, 1)
            for row in one["quality"] if row["phase"] == "bp" and row["layer"] == LAYERS[0]]  # fmt: skip
    assert len(rows) == 4 and predicted[LAYERS[0]]["mse"] == pytest.approx(np.mean([row["mse"] for row in rows]))
    assert {row["lr"] for row in mean["tuning"]} >= set(TINY_REGIME.lrs)
    assert len(mean["tuning"]) == 2 * mean["chosen"]["tried"] + 2 * 2 and details["examples"]["train"] == 256
    assert mean["runs"][0]["lr"] == mean["chosen"]["lr"]
    assert [(s.variant, s.gradient_source) for s in tiny][1:] == [("max", "predicted"), ("max", "mean")]
    assert tiny[0].variant == "baseline"
    before, _ = output.read_bytes(), tiny.clear()
    assert run(monkeypatch, capsys, *arguments)[0] == 0
    assert output.read_bytes() == before and not tiny  # all is kept


def test_what_is_not_for_a_network_is_left_out(tiny, monkeypatch, capsys, tmp_path):
    regime = replace(TINY_REGIME, model="small-resnet", preset="", images=64, epochs=1, lrs=(0.05,), tuning=1)
    monkeypatch.setitem(REGIMES, "tiny", regime)
    monkeypatch.setattr(comparison, "BEYOND", 0)
    output = tmp_path / "accuracy.json"
    arguments = ("--regimes", "tiny", "--methods", "bp-1,half-1:1,late-1:1", "--seeds", 1, "--output", output)
    code, _, err = run(monkeypatch, capsys, *arguments)
    assert code == 0 and "tiny: not for small-resnet: late-1:1" in err
    assert list(json.loads(output.read_text())["details"]["tiny"]["details"]["methods"]) == ["bp-1", "half-1:1"]


def test_a_regime_that_is_not_simulated(tiny, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(REGIMES, "tiny", replace(TINY_REGIME, tuning=1))
    output = tmp_path / "accuracy.json"
    arguments = ("--regimes", "tiny", "--methods", "bp-1,bp-0.4,mean-1:1", "--seeds", 2, "--output", output)
    arguments += ("--without-cycles",)
    code, out, _ = run(monkeypatch, capsys, *arguments)
    assert code == 0 and not tiny and "in MACs" in out and "in cycles" not in out
    found = json.loads(output.read_text())
    figures, details = found["figures"], found["details"]["tiny"]["details"]
    assert figures["cost_tiny_mean-1:1"] == pytest.approx(2 / 3, abs=1e-4)
    assert not [name for name in figures if name.startswith("cycles")]
    assert details["by_cycles"] == details["cycles_per_batch"] == {}
    plain = details["methods"]["bp-1"]
    assert len(plain["tuning"]) == plain["chosen"]["tried"] + 2 * 1
    assert details["regime"]["torch"] == torch.__version__


def test_outcomes_of_another_torch_are_not_mixed_in(tiny, monkeypatch, capsys, tmp_path):
    arguments = ("--regimes", "tiny", "--methods", "bp-1", "--seeds", 1, "--output", tmp_path / "accuracy.json")
    assert run(monkeypatch, capsys, *arguments)[0] == 0
    [path] = (tmp_path / "work").glob("tiny-cpu-*/settings.json")
    path.write_text(path.read_text().replace(torch.__version__, "1.0"))
    for outcome in path.parent.glob("outcomes/*-0-*"):
        outcome.unlink()
    code, _, err = run(monkeypatch, capsys, *arguments)
    assert code == 2 and "an experiment with torch = '1.0'" in err


@pytest.mark.parametrize(("arguments", "said"), [
    (("--device", "tpu"), "invalid choice: 'tpu'"),
    (("--device", "cuda", "--regimes", "digits-steep"), "device = 'cuda', and PyTorch finds no GPU"),
    (("--regimes", "moon"), "no 'moon'; there are digits-steep"),
    (("--methods", "bp-1,hope"), "no 'hope'; there are bp-1"),
    (("--methods", "bp-0.4,skip"), "--methods must have bp-1"),
    (("--data", "cifar10"), "'cifar10' must be DATASET=FOLDER"),
    (("--regimes", "digits-steep,cifar-long"), "cifar10: give --data cifar10=FOLDER, where its files are"),
])  # fmt: skip
def test_mistakes(tiny, monkeypatch, capsys, arguments, said):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, err = run(monkeypatch, capsys, *arguments)
    assert code == 2 and said in err


@pytest.mark.parametrize("regime", [r for r in REGIMES.values() if r.preset], ids=lambda regime: regime.name)
@pytest.mark.parametrize("source", [PLAIN, *SOURCES])
def test_the_accelerator_takes_each_regime(regime, source):
    """Its program can be made: of the same network, as many weights."""
    x_NCHW, y_N = np.zeros((1, regime.channels, regime.image_size, regime.image_size), np.float32), np.zeros(1, int)
    settings = settings_of(regime, source)
    with open_session(settings, "golden", dataset=Dataset(regime.data, x_NCHW, y_N, x_NCHW, y_N, 10)) as session:
        state = session.network.state_dict(session.device)
    assert sum(value.numel() for value in state.values()) > 1000
    assert settings.batch == regime.batch_size


def test_cycles_are_kept_apart(tiny, tmp_path):
    assert measured(TINY_REGIME, "mean", 10, tmp_path) == measured(TINY_REGIME, "mean", 10, tmp_path) == CYCLES["mean"]
    assert measured(TINY_REGIME, PLAIN, 10, tmp_path) == {"warmup": 100}
    measured(replace(TINY_REGIME, image_size=4), "mean", 10, tmp_path)
    assert len(tiny) == 3
    assert measured(TINY_REGIME, HALF, 10, tmp_path) == {"warmup": 100, "bp": 100, "gp": 60}
    assert len(tiny) == 4 and tiny[-1].batch == TINY_REGIME.batch_size // 2
    outcome = {"run": {"method": "dni-1:1"}, "batches": {"warmup": 1}}
    assert cycles_of(outcome, CYCLES) is None
