"""``adagp experiment`` with other tasks, courses of the learning rate and number formats."""

import json
import math

import pytest
import torch
from adagp.experiments import runs
from adagp.experiments.preparation import prepared
from adagp.experiments.tasks import TRANSLATION, Task
from public_forms import multi30k, voc
from small_experiments import TINY, outcomes


def sentences(count):
    words = ("ein", "mann", "hund", "rot", "ball")
    lines = [" ".join(words[(i + j) % 5] for j in range(3 + i % 3)) for i in range(count)]
    return lines, [line.replace("ein", "a").replace("mann", "man").replace("rot", "red") for line in lines]


def translation_folder(folder):
    parts = {"train": 12, "val": 4, "test_2016_flickr": 4}
    files = {(part, language): lines for part, count in parts.items()
             for language, lines in zip(("de", "en"), sentences(count), strict=True)}  # fmt: skip
    folder.mkdir()
    return multi30k(folder, files)


def test_translation(experiment, tmp_path):
    folder = translation_folder(tmp_path / "files")
    code, out, err = experiment(
        "--model", "transformer", "--data-dir", folder, "--batch", 4, "--epochs", 1, "--seeds", 0, "--lr", 1e-3,
        "--methods", "bp-1,ada-gp", "--run", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    assert "word accuracy, %" in out and "bleu" in out and "multi30k" in out
    (plain, ada) = outcomes(tmp_path / "run")
    assert plain["batches"] == {"warmup": 3} and plain["measures"]["loss"] > 0 and 0 <= ada["measures"]["bleu"] <= 100
    assert 0 < plain["test"] <= 100 and plain["validation_losses"]
    layers = {row["layer"] for row in json.loads((tmp_path / "run/metrics.json").read_text())}
    assert {"output.weight", "encoder.layers.0.self_attn.in_proj_weight"} <= layers


def test_detection(experiment, tmp_path, rng):
    pytest.importorskip("PIL")
    year = voc(tmp_path / "VOC2007", rng, {"train": ["a", "b", "c", "f"], "val": ["d"], "test": ["e"]})
    code, out, err = experiment(
        "--model", "yolo-v3", "--data-dir", year, "--image-size", 32, "--batch", 2, "--epochs", 1, "--seeds", 0,
        "--methods", "ada-gp", "--run", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    assert "mAP at IoU 0.5, %" in out and "class accuracy" in out
    (plain,) = outcomes(tmp_path / "run")
    assert plain["batches"] == {"warmup": 2} and 0 <= plain["measures"]["class_accuracy"] <= 100
    assert plain["losses"][0] > 0 and 0 <= plain["test"] <= 100


def test_dropout_goes_on_too(tmp_path, epochs_seen):
    """It draws from PyTorch's generator, which is part of a state and the same afterwards."""
    data = prepared("multi30k", translation_folder(tmp_path / "files"))
    run = runs.Run("multi30k", "transformer", "ada-gp-1:1", 0, 1e-3, 3, 4, 0, 3, optimizer="adam")
    seen, stop = epochs_seen
    torch.manual_seed(5)
    before = torch.get_rng_state()
    whole = runs.execute(run, data, task=TRANSLATION)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    stop.append(1)
    with pytest.raises(KeyboardInterrupt):
        runs.execute(run, data, task=TRANSLATION, folder=tmp_path)
    torch.manual_seed(7)
    again = runs.execute(run, data, task=TRANSLATION, folder=tmp_path)
    assert again.losses == whole.losses and again.test == whole.test and [epoch for _, epoch in seen] == [1, 2, 3]


@pytest.fixture
def rates(monkeypatch):
    """Learning rates behind epochs, and with what losses they were told."""
    seen = []

    class Watched(runs.Rates):
        def __init__(self, kind, trained, total):
            super().__init__(kind, trained, total)
            self.trained = trained

        def after_epoch(self, loss):
            super().after_epoch(loss)
            seen.append((self.trained.param_groups[0]["lr"], loss))

    monkeypatch.setattr(runs, "Rates", Watched)
    return seen


@pytest.mark.parametrize("kind, wanted", (
    ("constant", [0.1] * 4), ("cosine", [0.1 * (1 + math.cos(math.pi * n / 8)) / 2 for n in (2, 4, 6, 7)]),
))  # fmt: skip
def test_learning_rates(kind, wanted, experiment, tmp_path, rates):
    """Four epochs of two batches; behind the last batch there is no step."""
    options = (*TINY, "--methods", "bp-1", "--epochs", 4, "--lr-schedule", kind, "--run", tmp_path)
    assert experiment(*options)[0] == 0
    assert [rate for rate, _ in rates] == pytest.approx(wanted)


def test_plateau_follows_the_validation_loss(experiment, tmp_path, rates, monkeypatch):
    """It falls behind ten epochs that weren't better, where the score got better all along."""
    losses = iter([2.0, *range(3, 20)])
    monkeypatch.setattr(Task, "score_and_loss", lambda *_: (float(len(rates)), float(next(losses))))
    options = (*TINY, "--methods", "bp-1", "--epochs", 14, "--lr-schedule", "plateau", "--optimizer", "adamw")
    assert experiment(*options, "--run", tmp_path)[0] == 0
    assert [rate for rate, _ in rates] == pytest.approx([0.1] * 11 + [0.01] * 3)
    assert [loss for _, loss in rates] == outcomes(tmp_path)[0]["validation_losses"] == [2.0, *range(3, 16)]


def test_mixed_precision(experiment, tmp_path, monkeypatch):
    """With losses that are scaled for fp16, in batches with true gradients."""
    losses, scaled, real = {}, [], torch.amp.GradScaler.update
    monkeypatch.setattr(torch.amp.GradScaler, "update", lambda self: (scaled.append(kind), real(self)))
    for kind in ("off", "bf16", "fp16"):
        options = (*TINY, "--methods", "bp-1,ada-gp-1:1", "--epochs", 2, "--autocast", kind, "--run", tmp_path / kind)
        assert experiment(*options)[0] == 0
        losses[kind] = [loss for one in outcomes(tmp_path / kind) for loss in one["losses"]]
    for kind in ("bf16", "fp16"):
        assert losses[kind] != losses["off"] and losses[kind] == pytest.approx(losses["off"], rel=0.02)
    assert scaled == ["fp16"] * (4 + 3)
