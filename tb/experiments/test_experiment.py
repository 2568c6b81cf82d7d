"""``adagp experiment`` with all methods: what it prints, writes and draws."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from adagp.algorithm.metrics import MEASURES
from adagp.experiments import results
from adagp.experiments.methods.methods import METHODS
from adagp.host.training import events
from adagp.spec.schedule import PREDICTING
from small_experiments import COMMAND, LAYERS, TINY, outcomes, rows_of

PLOTS = ("accuracy", "cost", "mape_mse", "cosine", "signs_norms")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All methods side by side for four epochs: the folder, what was printed, the summary."""
    folder = tmp_path_factory.mktemp("experiment") / "run"
    summary = folder.parent / "summary.json"
    command = [sys.executable, "-c", COMMAND, *TINY, "--methods", "all", "--epochs", "4", "--run", folder,
               "--json", summary]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    return folder, done.stdout, json.loads(summary.read_text())


def test_the_table_has_every_method(whole):
    _, out, _ = whole
    rows = rows_of(out)
    assert list(rows) == list(METHODS) and rows["bp-1"][1] == "100.0" and rows["bp-0.4"][2] == "on its line"
    assert rows["ada-gp"][2][0] in "+-" and rows["dni-1:1"][2] == "-"  # dearer than plain training
    assert all(len(cells) == 4 and cells[3] for cells in rows.values())  # the last is the loss


def test_costs_are_those_of_the_batches(whole):
    folder, _, summary = whole
    by_method = {one["run"]["method"]: one for one in outcomes(folder)}
    assert by_method["ada-gp"]["batches"] == {"warmup": 2, "gp": 5, "bp": 1}
    assert by_method["bp-0.55"]["batches"] == {"warmup": 4}
    assert all(one["whole"] == by_method["bp-1"]["macs"] for one in by_method.values())
    rows = {row["method"]: row for row in summary["methods"]}
    assert rows["bp-0.55"]["cost"] == 0.5 and rows["ada-gp"]["cost"] == pytest.approx(
        by_method["ada-gp"]["macs"] / by_method["bp-1"]["macs"]
    )
    assert rows["ada-gp"]["accuracy"] == by_method["ada-gp"]["test"] == rows["ada-gp"]["by_seed"]["0"]
    assert rows["ada-gp"]["measures"]["loss"] > 0 and rows["ada-gp"]["sd"] is None
    assert summary["settings"]["lr"] == 0.1 and summary["score"] == "accuracy" and summary["folder"] == str(folder)


def test_methods_that_were_too_short_are_told():
    def outcome(method, **batches):
        return {"run": {"method": method}, "batches": batches}

    few = [outcome("bp-1", warmup=2), outcome("bp-0.85", warmup=2), outcome("bp-0.4", warmup=1),
           outcome("skip", warmup=2), outcome("skip", warmup=2), outcome("ada-gp", warmup=1, gp=1)]  # fmt: skip
    assert results.remarks(few) == [
        "no GP batches, so plain training: skip", "of as many epochs, so the same: bp-1 and bp-0.85",
    ]  # fmt: skip
    assert results.remarks([few[0], few[2], few[5]]) == []


def test_outcomes_follow_the_epochs(whole):
    for outcome in outcomes(whole[0]):
        n_epochs = max(1, round(4 * METHODS[outcome["run"]["method"]].share))
        assert len(outcome["losses"]) == len(outcome["validations"]) == len(outcome["validation_losses"]) == n_epochs
        assert outcome["validations"][-1] == outcome["validation"]


def test_metrics_have_each_layer_phase_and_epoch(whole):
    folder = whole[0]
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["method", "seed", "epoch", "phase", "layer", "batches", *MEASURES]
    mine = [(r["epoch"], r["phase"], r["layer"], r["batches"]) for r in rows if r["method"] == "ada-gp"]
    phases = {"0": ("warmup", "2"), "3": ("bp", "1")}  # between them there were only GP batches
    assert mine == [(e, phase, layer, n) for e, (phase, n) in phases.items() for layer in LAYERS]
    assert {r["method"] for r in rows} == {n for n, m in METHODS.items() if m.entries and m.source in PREDICTING}
    assert all(float(r["mape"]) > 0 and -1 <= float(r["cosine"]) <= 1 for r in rows if r["method"] == "ada-gp")
    listed = json.loads((folder / "metrics.json").read_text())
    assert [str(row["mse"]) for row in listed] == [row["mse"] for row in rows]


def test_plots_show_something(whole):
    from matplotlib.image import imread

    pictures = {path.stem: imread(path) for path in whole[0].glob("*.png")}
    assert sorted(pictures) == sorted(PLOTS)
    for picture in pictures.values():
        colours = picture[..., :3].max(-1) - picture[..., :3].min(-1)
        assert (colours > 0.2).mean() > 0.002  # axes and text are grey
    assert f"{', '.join(f'{name}.png' for name in PLOTS)} in {whole[0]}" in " ".join(whole[1].split())


def test_a_finished_experiment_is_only_reported(whole, experiment, epochs_seen):
    folder, out, _ = whole
    before = (folder / "outcomes.json").read_bytes()
    code, again, err = experiment(*TINY, "--methods", "all", "--epochs", 4, "--run", folder)
    assert code == 0 and not epochs_seen[0] and again == out and f"{len(METHODS)} of {len(METHODS)} runs" in err
    assert (folder / "outcomes.json").read_bytes() == before and not list((folder / "states").iterdir())


def test_tensorboard(experiment, tmp_path, monkeypatch):
    options = (*TINY, "--methods", "ada-gp", "--epochs", 1, "--run", tmp_path / "run", "--tensorboard")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, err = experiment(*options)
    assert code == 2 and err == "error: tensorboard: its package isn't installed: pip install 'adagp[tensorboard]'"
    assert not (tmp_path / "run").exists()
    said = []

    class Writer:
        def __init__(self, folder):
            self.name = Path(folder).name

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def add_scalar(self, tag, value, epoch):
            said.append((self.name, tag, epoch))

    for user in (events, results):
        monkeypatch.setattr(user, "events_writer", lambda: Writer)
    assert experiment(*options)[0] == 0
    assert ("ada-gp-0", "losses", 0) in said and ("ada-gp-0", "cosine/warmup/0.weight", 0) in said
    assert len(said) == 3 + len(MEASURES) * len(LAYERS)
