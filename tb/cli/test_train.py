"""``adagp train``: what it prints and writes, its phases, and runs that go on."""

import csv
import json

import pytest
import torch
from adagp.host.training.run_folder import RunFolder
from adagp.host.training.settings import TrainSettings
from adagp.host.training.timeline import read_trace
from command_line import SMALL

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first


def test_train_writes_everything(adagp, trained):
    summary = json.loads((trained.parent / "golden.json").read_text())
    assert summary == RunFolder(trained).summary and len(summary["weights_hash"]) == 64
    assert summary["device"] == "golden" and summary["settings"]["batch"] == 8 and summary["macs"] > 0
    assert [row["epoch"] for row in RunFolder(trained).log] == [1, 2]
    rows = list(csv.DictReader((trained / "log.csv").open()))
    assert [float(row["train_loss"]) for row in rows] == [row["train_loss"] for row in RunFolder(trained).log]
    assert (trained / "report.png").read_bytes().startswith(b"\x89PNG")
    state = torch.load(trained / "weights.pt")
    assert len(state) == 6 and all(tensor.isfinite().all() for tensor in state.values())


def test_train_again_and_with_other_settings(adagp, trained, tmp_path):
    hashes = []
    for extra in ((), (), ("--fresh",), ("--seed", "1", "--fresh")):
        code, out, _ = adagp("train", "--device", "golden", "-o", tmp_path / "run", *SMALL, *extra)
        assert code == 0 and "test accuracy" in out
        hashes.append(RunFolder(tmp_path / "run").summary["weights_hash"])
    assert hashes[:3] == [RunFolder(trained).summary["weights_hash"]] * 3 and hashes[3] != hashes[2]
    code, out, err = adagp("train", "--device", "golden", "-o", tmp_path / "run", *SMALL)
    assert (code, out) == (2, "") and "holds a run with seed = 1, not 0: give another --output, or --fresh" in err


def test_designs_have_folders_of_their_own(adagp, tmp_path, monkeypatch):
    """The same command for another design or source doesn't meet the run of the one before."""
    monkeypatch.chdir(tmp_path)
    more = ("--model", "mlp", "--warmup-epochs", "1", "--phases", "1:1")
    designs = ((), ("--variant", "low", *more), ("--variant", "low", "--gradient-source", "zero", *more))
    for options in (*designs, ("--dataflow", "is")):
        code, _, err = adagp("train", "--device", "golden", *SMALL, *options)
        assert code == 0, err
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert [name.rpartition("0")[2] for name in names] == ["", "-is", "-low-predicted", "-low-zero"]


def test_a_run_keeps_its_dataflow(adagp, trained, tmp_path):
    """Its results are those of any; but one that was killed goes on with its own alone."""
    options = ("--device", "golden", "-o", tmp_path / "run", *SMALL)
    assert adagp("train", *options, "--dataflow", "ws")[0] == 0
    assert RunFolder(tmp_path / "run").summary["weights_hash"] == RunFolder(trained).summary["weights_hash"]
    (tmp_path / "run" / "summary.json").unlink()  # as if killed at the end
    for other in ((), ("--dataflow", "is")):
        code, _, err = adagp("train", *options, *other)
        wanted = other[1] if other else "free"
        assert code == 2 and f"holds a run with dataflow = 'ws', not '{wanted}': give another --output" in err
    assert adagp("train", *options, "--dataflow", "ws")[0] == 0
    settings = RunFolder(tmp_path / "run").settings
    del settings["dataflow"]  # as earlier versions wrote them
    assert TrainSettings.from_dict(settings).dataflow == "free"
    assert adagp("evaluate", tmp_path / "run", "--device", "golden")[0] == 0


def test_runs_of_gp_batches_without_end(adagp, tmp_path):
    """Several of them fill the input ring before the epoch is over; what was done is said at the end."""
    options = ("--variant", "low", "--phases", "1:0", "-o", tmp_path / "run", "--json", tmp_path / "summary.json")
    code, out, err = adagp("train", "--device", "golden", *SMALL, *options)
    assert code == 0, err
    summary = json.loads((tmp_path / "summary.json").read_text())
    steps = summary["batches_warmup"]
    assert steps > 2 and (summary["batches_bp"], summary["batches_gp"]) == (0, steps)
    assert f"batches: {steps} of warm-up, {steps} of GP" in out and "spared" not in out
    assert f"{steps} of GP" in adagp("report", tmp_path / "run")[1]


def test_skipped_batches_are_told_and_keep_their_numbers(adagp, tmp_path):
    """Two of batches 3 to 5 are skipped: the timeline's window has the one after them."""
    options = ("--variant", "low", "--gradient-source", "skip", "--phases", "2:1", "--timeline", "5:5", "--fresh")
    code, out, err = adagp("train", *SMALL, *options, "-o", tmp_path / "run")
    assert code == 0 and "batches: 3 of warm-up, 1 of BP (" in out and "; those of GP were skipped" in out, err
    found = read_trace(tmp_path / "run" / "timeline.json")
    assert {(s.batch, s.phase) for s in found} == {(5, "BP")}


def test_a_run_of_warm_up_alone_says_so(adagp, tmp_path):
    options = ("--variant", "low", "--warmup-epochs", "2", "-o", tmp_path / "run")
    code, out, _ = adagp("train", "--device", "golden", *SMALL, *options)
    assert code == 0 and "none was spared its backward pass" in out


def test_a_shut_gate_makes_all_batches_true(adagp, tmp_path):
    """No real prediction is as good as its threshold: what follows is a BP batch instead."""
    batches = {}
    for gate in ("0", "1"):
        options = ("--variant", "low", "--phases", "1:1", "--epochs", "3", "--gate", gate, "-o", tmp_path / gate)
        assert adagp("train", "--device", "golden", *SMALL, *options)[0] == 0
        state, _ = RunFolder(tmp_path / gate).read_checkpoint()
        batches[gate] = state["progress"]["batches"]
    assert batches == {"0": [3, 3, 3], "1": [3, 6, 0]}


def test_a_network_that_is_wholly_frozen_is_not_trained(adagp, tmp_path):
    (tmp_path / "own.py").write_text(
        "from torch import nn\ndef build(shape, n_classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, n_classes)).requires_grad_(False)\n"
    )
    code, out, err = adagp(
        "train", "--device", "golden", "--model", f"{tmp_path / 'own.py'}:build", "-o", tmp_path / "run"
    )
    assert (code, out) == (2, "") and "every parameter is frozen or there is none" in err
    assert not (tmp_path / "run").exists()
