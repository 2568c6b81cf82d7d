"""The command line and the folders of runs: what it refuses, what it trusts, and how a run that diverged ends."""

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from adagp.host.training import events
from adagp.host.training.run_folder import RunFolder
from command_line import SMALL

TRAIN = ("train", "--device", "golden", *SMALL)
MODEL = """
from pathlib import Path
from torch import nn

Path(__file__).with_name("has run").touch()

def net(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, n_classes))
"""


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unfinished(folder):
    """Make a finished run one that was killed at its end."""
    (folder / "summary.json").unlink()


@pytest.mark.parametrize("content", [
    {"weights.pt": "mine"}, {"settings.json": '{"editor": "mine"}', "log.json": "mine"}, {"notes": "mine"},
])  # fmt: skip
@pytest.mark.parametrize("option", [(), ("--fresh",)])
def test_files_of_others_are_kept(adagp, tmp_path, content, option):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    before = files(tmp_path)
    code, out, err = adagp(*TRAIN, *option, "-o", tmp_path)
    first = min(content)
    assert code == 2 and not out and err.count("\n") == 1
    assert f"{tmp_path} holds {first} but no run (no adagp.json): give another --output" in err
    assert files(tmp_path) == before


def test_a_run_of_an_earlier_version_goes_on_with_the_same_bits(adagp, trained, tmp_path):
    """It has no marker, no checksum, and no digest of data in its checkpoint."""
    assert adagp(*TRAIN, "-o", tmp_path / "run")[0] == 0
    folder = RunFolder(tmp_path / "run")
    unfinished(folder.path)
    state, arrays = folder.read_checkpoint()
    del state["data"], state["model_file"]
    with (folder.path / "checkpoint.npz").open("wb") as file:
        np.savez(file, progress=np.array(json.dumps(state)), **arrays)
    for name in ("adagp.json", "lock"):
        (folder.path / name).unlink()
    code, _, err = adagp(*TRAIN, "-o", folder.path)
    assert code == 0 and "going on from epoch 3" in err and (folder.path / "adagp.json").exists()
    assert folder.summary["weights_hash"] == RunFolder(trained).summary["weights_hash"]


def test_a_second_train_is_told_who_is_at_work(adagp, tmp_path):
    with RunFolder(tmp_path / "run").in_use():
        code, out, err = adagp(*TRAIN, "-o", tmp_path / "run")
    assert code == 2 and not out and err.count("\n") == 1
    assert f"another command is at work in {tmp_path / 'run'}: process {os.getpid()}" in err


def test_a_mistake_leaves_no_folder(adagp, tmp_path):
    assert adagp(*TRAIN, "--model", "none", "-o", tmp_path / "run")[0] == 2
    assert not list(tmp_path.iterdir())


def test_other_data_is_refused_when_a_run_goes_on(adagp, tmp_path):
    x, y = np.random.default_rng(4).integers(0, 256, (40, 3, 8, 8), np.uint8), np.arange(40) % 10
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    options = (*TRAIN, "--model", "mlp", "--data", "cifar10", "--data-dir", data, "-o", run)
    np.savez(data / "cifar10.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    code, _, err = adagp(*options)
    assert code == 0 and "cifar10: 40 training and 40 test images of 3x8x8, 10 classes" in err
    unfinished(run)
    for part, place in (("x_train", (3, 0, 0, 0)), ("y_train", 5), ("x_test", (9, 1, 2, 3)), ("y_test", 2)):
        arrays = {"x_train": x.copy(), "y_train": y.copy(), "x_test": x.copy(), "y_test": y.copy()}
        arrays[part][place] ^= 1
        np.savez(data / "cifar10.npz", **arrays)
        before = files(run)
        code, _, err = adagp(*options)
        assert code == 2 and err.count("\n") == 1 and "belongs to a run on other data than cifar10 is now" in err
        assert files(run).keys() == before.keys()
        assert all(files(run)[name] == content for name, content in before.items() if name.name != "lock")
    np.savez(data / "cifar10.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    assert adagp(*options)[0] == 0


# --- the model's file -------------------------------------------------------------------------


def test_evaluate_says_which_file_it_runs_and_runs_no_other(adagp, tmp_path):
    model, ran, run = tmp_path / "net.py", tmp_path / "has run", tmp_path / "run"
    model.write_text(MODEL)
    assert adagp(*TRAIN, "--model", f"{model}:net", "-o", run)[0] == 0
    expected = f"running the model file {model}"
    for shown in (("evaluate", run), ("evaluate", run, "--trust-model")):
        ran.unlink()
        code, out, err = adagp(*shown)
        assert code == 0 and "(10 images)" in out and expected in err.replace("\n", "") and ran.exists()
    ran.unlink()
    model.write_text(MODEL + "\n# other\n")
    code, out, err = adagp("evaluate", run)
    assert code == 2 and not out and err.count("\n") == 1 and not ran.exists()
    assert f"{model}, the model of {run}, isn't the file that was trained; --trust-model" in err
    assert adagp("report", run)[0] == 0 and not ran.exists()
    code, out, err = adagp("evaluate", run, "--trust-model")
    assert code == 0 and expected in err.replace("\n", "") and ran.exists()


def test_evaluate_refuses_a_file_of_which_no_digest_was_kept(adagp, tmp_path):
    model, ran, folder = tmp_path / "net.py", tmp_path / "has run", RunFolder(tmp_path / "run")
    model.write_text(MODEL)
    assert adagp(*TRAIN, "--model", f"{model}:net", "-o", folder.path)[0] == 0
    ran.unlink()
    state, arrays = folder.read_checkpoint()
    del state["model_file"]
    folder.write_checkpoint(state, arrays)
    code, _, err = adagp("evaluate", folder.path)
    assert code == 2 and "no digest was kept; --trust-model" in err and not ran.exists()
    assert adagp("evaluate", folder.path, "--trust-model")[0] == 0 and ran.exists()


# --- files of other shapes --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["settings.json", "log.json", "summary.json"])
@pytest.mark.parametrize("content", [b"\xff\xfe", b"[1]", b'{"model": 7}', b'"text"'])
def test_foreign_files_in_a_run_get_one_line(adagp, trained, tmp_path, name, content):
    for file in ("settings.json", "log.json", "summary.json", "checkpoint.npz"):
        (tmp_path / file).write_bytes((trained / file).read_bytes())
    (tmp_path / name).write_bytes(content)
    reader = "report" if name == "log.json" else "evaluate"
    code, _, err = adagp(reader, tmp_path)
    if name == "summary.json" and content.startswith(b"{"):
        assert "device" in err
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1


# --- divergence -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n_images, place, step", [("24", "the test after epoch 1", 3), ("64", "batch 3 of epoch 1", 2)]
)
def test_a_run_that_diverges_says_so_and_keeps_its_last_checkpoint(adagp, tmp_path, n_images, place, step):
    options = (*TRAIN, "--model", "mlp", "--checkpoint-every", "1", "--lr", "1000", "-o", tmp_path)
    folder, kept = RunFolder(tmp_path), []
    for _ in range(2):  # the same command goes on from that checkpoint, and fails there again
        code, out, err = adagp(*options, "--train-images", n_images)
        line = " ".join(err.splitlines()[-1].split())
        assert code == 1 and not out and "Traceback" not in err
        assert f"failed: training has diverged: the loss of {place} is " in line and "--learning-rate" in line
        assert line.endswith("the last checkpoint is kept") and not folder.finished
        kept.append(folder.read_checkpoint()[0])
    assert kept[0] == kept[1] and kept[0]["progress"]["step"] == step
    assert kept[0]["progress"]["loss_sum"] < 1000 * math.log(10) * kept[0]["progress"]["images"]


# --- TensorBoard ------------------------------------------------------------------------------


class Writer:
    """TensorBoard's writer, but for the format: a file of its own for each, with a line for each event."""

    n_made = 0

    def __init__(self, folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._file = (Path(folder) / f"events.out.tfevents.{Writer.n_made}").open("w")
        Writer.n_made += 1

    def add_scalar(self, tag, value, step):
        self._file.write(json.dumps([tag, value, step]) + "\n")

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()


def events_in(folder):
    return [json.loads(line) for path in sorted(folder.rglob("events.*")) for line in path.read_text().splitlines()]


def test_events_of_a_run_that_goes_on_are_not_doubled(adagp, tmp_path, monkeypatch):
    monkeypatch.setattr(events, "events_writer", lambda: Writer)
    folder, begun = RunFolder(tmp_path / "run"), []

    def interrupted(self, log):
        EpochEvents.write(self, log)
        if len(log) == 1 and not begun:
            begun.append(events_in(folder.path))
            raise KeyboardInterrupt

    class Interrupted(events.EpochEvents):
        write = interrupted

    EpochEvents = events.EpochEvents
    monkeypatch.setattr(events, "EpochEvents", Interrupted)
    options = (*TRAIN, "--tensorboard", "--checkpoint-every", "1", "-o", folder.path)
    assert adagp(*options)[0] == 130
    assert {epoch for _, _, epoch in begun[0]} == {1}
    code, _, err = adagp(*options)
    assert code == 0 and "going on from epoch 2" in err
    expected = [[tag, value, row["epoch"]] for row in folder.log for tag, value in row.items() if tag != "epoch"]
    assert events_in(folder.path) == expected and len(expected) > 20
    assert ["test_accuracy", folder.log[1]["test_accuracy"], 2] in expected
    assert adagp(*TRAIN, "-o", folder.path)[0] == 0  # a new run has none of the old one's
    assert not events_in(folder.path)


def test_without_tensorboards_package_nothing_is_begun(adagp, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, err = adagp(*TRAIN, "--tensorboard", "-o", tmp_path / "run")
    assert code == 2 and "tensorboard: its package isn't installed: pip install 'adagp[tensorboard]'" in err
    assert not (tmp_path / "run").exists()
