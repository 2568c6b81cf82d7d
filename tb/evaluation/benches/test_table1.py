"""The bench of Table 1: it stops and goes on, and says what it can't do; with a small network on a CPU."""

import json

import numpy as np
import pytest
import torch
from adagp.evaluation.benches import table1
from adagp.evaluation.benches.table1 import figures_of, main
from adagp.experiments.data import DataError
from adagp.experiments.data.images import image_splits
from adagp.experiments.data.on_device import DeviceImages
from adagp.experiments.device_run import DeviceRun
from adagp.gen.provenance import NOW

EPOCHS = 12
BATCHES = 4


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A few images in place of the data set; returns the command with arguments behind its usual ones."""
    rng = np.random.default_rng(0)
    train, test = ((rng.integers(0, 256, (n, 3, 8, 8), np.uint8), np.arange(n) % 10) for n in (40, 20))
    splits = image_splits("cifar10", train, test, 10, 0.2, 0, True)
    monkeypatch.setattr(table1, "prepared", lambda *_, **__: splits)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)

    def run(name, *more):
        usual = ["--model", "small-resnet", "--device", "cpu", "--epochs", str(EPOCHS), "--batch", "8"]
        files = ["--data", str(tmp_path), "--state", str(tmp_path / name), "-o", str(tmp_path / f"{name}.json")]
        main([*usual, *files, *more])
        [detail] = json.loads((tmp_path / f"{name}.json").read_text())["details"].values()
        return detail["details"]["runs"]

    return run


def _ends(runs):
    return [{key: value for key, value in run.items() if key != "seconds"} for run in runs]


def test_a_run_that_stops_goes_on_as_if_it_had_not(small, monkeypatch, capsys):
    expected = small("whole", "--methods", "bp-1,ada-gp", "--seeds", "1")
    assert [run["epochs"] for run in expected] == [EPOCHS] * 2 and all(run["over"] for run in expected)
    assert expected[0]["batches"] == {"warmup": EPOCHS * BATCHES} and expected[1]["batches"]["gp"] > 0
    longest = DeviceRun._longest
    for last in (2, 5):  # of the epochs before the time is over
        monkeypatch.setattr(DeviceRun, "_longest", lambda self, last=last: 1e9 if self.epoch >= last else 0)
        part = small("parts", "--methods", "ada-gp", "--seeds", "1", "--minutes", "5")
        assert [(run["epochs"], run["over"]) for run in part] == [(last, False)]
    assert "0 of 1 runs are over; the same command goes on" in capsys.readouterr().out
    monkeypatch.setattr(DeviceRun, "_longest", longest)
    assert _ends(small("parts", "--methods", "bp-1,ada-gp", "--seeds", "1")) == _ends(expected)
    monkeypatch.setattr(DeviceRun, "train", lambda *_: pytest.fail("nothing is left to train"))
    assert _ends(small("parts", "--methods", "bp-1,ada-gp", "--seeds", "1")) == _ends(expected)
    assert "2 of 2 runs are over\n" in capsys.readouterr().out


def test_every_epoch_of_every_seed_has_an_order_of_its_own(small, monkeypatch):
    orders, batches = [], DeviceImages.batches

    def seen(images, size, seed, epoch):
        orders.append((seed, epoch))
        return batches(images, size, seed, epoch)

    monkeypatch.setattr(DeviceImages, "batches", seen)
    small("orders", "--methods", "bp-1", "--seeds", "2")
    assert orders == [(seed, epoch) for seed in (0, 1) for epoch in range(EPOCHS)]


def test_results_say_where_they_are_from(small, tmp_path):
    small("one", "--methods", "skip", "--seeds", "2")
    written = json.loads((tmp_path / "one.json").read_text())
    part = f"small-resnet-device-cpu-epochs-{EPOCHS}-batch-8"
    origin = written["provenance"][part]
    assert origin["code"] == {"library": NOW["library"]} and origin["seed"] == [0, 1]
    assert origin["command"].endswith(f"--device cpu --epochs {EPOCHS} --batch 8 --data FOLDER")
    assert set(written["figures"]) == {f"accuracy_{part}_skip", f"sd_{part}_skip"}
    assert written["details"][part]["details"]["examples"] == {"train": 32, "validation": 8, "test": 20}


def test_bf16_trains_otherwise_and_in_a_part_of_its_own(small, tmp_path):
    ends = [small(name, "--methods", "bp-1", "--seeds", "1", *more)[0]["losses"]
            for name, more in (("full", ()), ("half", ("--autocast", "bf16")))]  # fmt: skip
    assert ends[0] != ends[1] and ends[1][-1] == pytest.approx(ends[0][-1], abs=0.2)
    assert next(iter(json.loads((tmp_path / "half.json").read_text())["details"])).endswith("-batch-8-autocast-bf16")


def test_figures_are_of_runs_that_are_over():
    runs = [{"method": "bp-1", "test": test, "over": over} for test, over in ((80.0, True), (82.0, True), (9.0, False))]
    runs.append({"method": "ada-gp", "test": None, "over": True})
    assert figures_of("vgg13", runs) == {
        "accuracy_vgg13_bp-1": 81.0, "sd_vgg13_bp-1": 1.414, "accuracy_vgg13_ada-gp": 0.0,
    }  # fmt: skip


def test_mistakes_are_said_in_a_line(small, monkeypatch, capsys):
    def missing(*_, **__):
        raise DataError("cifar10: no files")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for options, why in (
        (["--methods", "mean-1:1"], "no 'mean-1:1' here; there are bp-1"), (["--minutes", "0"], "--minutes 0 must be"),
        (["--device", "cuda"], "PyTorch finds no GPU"), (["--batch", "33"], "batch = 33, and there are 32"),
        (["--seeds", "0"], "--seeds"),
    ):  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            small("wrong", *options)
        assert ended.value.code == 2 and why in capsys.readouterr().err
    monkeypatch.setattr(table1, "prepared", missing)
    with pytest.raises(SystemExit) as ended:
        small("wrong")
    assert ended.value.code == 2 and capsys.readouterr().err == "error: cifar10: no files\n"
