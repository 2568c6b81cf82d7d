"""The command line: what every command prints and writes."""

import csv
import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from adagp.cli.main import app
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.run_folder import RunFolder
from adagp.host.training.timeline import read_trace
from adagp.spec.commands import COMMAND_BYTES
from adagp.spec.presets import PRESETS, preset
from command_line import SMALL

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

COMMANDS = ("train", "evaluate", "report", "generate", "synth", "disasm", "diff", "info", "experiment")


# --- help -------------------------------------------------------------------------------------


def test_help_lists_every_command_under_its_purpose(adagp):
    code, out, _ = adagp("--help")
    assert code == 0
    shown = [line.split()[1] for line in out.splitlines() if line.startswith("│ ") and line[2].isalpha()]
    assert sorted(shown) == sorted((*COMMANDS, "board"))
    assert [command.callback.__name__ for command in app.registered_commands] == list(COMMANDS)
    panels = [line.strip("╭─╮ ") for line in out.splitlines() if line.startswith("╭")]
    assert panels[-4:] == [
        "Train a network", "Make the hardware", "Look inside", "Compare methods of training, in PyTorch",
    ]  # fmt: skip
    code, out, err = adagp()
    assert "Usage: adagp" in out + err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_teaches(adagp, command):
    code, out, _ = adagp(command, "--help")
    assert code == 0 and f"Example: adagp {command}" in out
    options = [line for line in out.splitlines() if line.startswith("│") and "--" in line]
    assert options and all(line.rstrip("│ ").split("  ")[-1].strip() for line in options)
    assert not [line for line in options if line.rstrip("│ ").endswith(">")]  # an option without a word about it


def test_help_needs_no_torch():
    code = "import sys, adagp.cli.main; print([m for m in ('torch', 'amaranth', 'matplotlib') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# --- what the commands do -----------------------------------------------------------------------


def test_info(adagp, tmp_path):
    code, out, err = adagp("info", "--json", tmp_path / "info.json")
    assert (code, err) == (0, "") and all(f"{config.config_hash:08x}" in out for config in PRESETS.values())
    shown = json.loads((tmp_path / "info.json").read_text())
    assert list(shown) == list(PRESETS) and shown["paper"]["rows"] == 12
    code, out, _ = adagp("info", "--preset", "tiny")
    assert "4 x 4 = 16" in out and "paper" not in out


def test_generate(adagp, tmp_path):
    code, out, err = adagp("generate", "--preset", "tiny", "-o", tmp_path / "made", "--json", tmp_path / "files.json")
    files = [str(tmp_path / "made" / name) for name in ("top.v", "top.json", "adagp.h")]
    assert (code, err) == (0, "") and out.split() == files
    assert (tmp_path / "made" / "top.v").read_text().count("\nmodule adagp(") == 1
    summary = json.loads((tmp_path / "files.json").read_text())
    hashed = preset("tiny").config_hash
    assert summary == {"preset": "tiny", "variant": "baseline", "config_hash": hashed, "files": files}


def test_generate_a_design_that_predicts(adagp, tmp_path):
    options = ("generate", "--preset", "tiny", "--random-signs", "-o", tmp_path, "--json", tmp_path / "files.json")
    assert adagp(*options, "--variant", "max")[0] == 0
    text = (tmp_path / "top.v").read_text()
    assert "predictor.drain" in text and "signs" in text
    design = replace(preset("tiny"), variant="max", random_signs=True)
    assert json.loads((tmp_path / "files.json").read_text())["config_hash"] == design.config_hash


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
    assert (code, out) == (2, "") and "holds a run with other settings: give another --output, or --fresh" in err


def test_the_simulation_trains_evaluates_and_agrees(adagp, trained, tmp_path):
    code, _, err = adagp("train", "--device", "sim", "-o", tmp_path / "run", *SMALL)
    assert code == 0 and "epoch   2  train loss" in err
    simulated, golden = RunFolder(tmp_path / "run").summary, RunFolder(trained).summary
    assert simulated["weights_hash"] == golden["weights_hash"] and simulated["cycles"] > simulated["macs"] / 16 > 0
    results = []
    for folder, device in ((tmp_path / "run", "sim"), (tmp_path / "run", "golden"), (trained, "sim")):
        code, out, _ = adagp("evaluate", folder, "--device", device, "--json", tmp_path / "test.json")
        assert code == 0 and "(10 images)" in out
        results.append(json.loads((tmp_path / "test.json").read_text()))
    assert results[0] == results[1] == results[2]
    assert results[0]["test_loss"] == RunFolder(trained).log[-1]["test_loss"]
    code, out, _ = adagp("report", tmp_path / "run")
    assert code == 0 and "PEs multiply in" in out and "DRAM" in out


def test_a_run_is_evaluated_where_it_was_trained(adagp, trained, monkeypatch):
    monkeypatch.setattr(SimDevice, "__init__", lambda *_, **__: pytest.fail("simulated"))
    code, out, _ = adagp("evaluate", trained)
    assert code == 0 and "(10 images)" in out


def test_report(adagp, trained, tmp_path):
    (trained / "report.png").unlink()
    code, out, err = adagp("report", trained, "--json", tmp_path / "report.json")
    assert (code, err) == (0, "") and str(trained / "report.png") in out.replace("\n", "")
    assert (trained / "report.png").exists()
    figures = json.loads((tmp_path / "report.json").read_text())
    assert figures["log"] == RunFolder(trained).log and figures["settings"]["preset"] == "tiny"


def test_disasm(adagp, tmp_path):
    options = ("--model", "mlp", "--preset", "tiny", "--binary", tmp_path / "mlp.bin", "--json", tmp_path / "mlp.json")
    code, out, err = adagp("disasm", *options)
    assert (code, err) == (0, "") and "1.Linear" in out
    summary = json.loads((tmp_path / "mlp.json").read_text())
    assert summary["listing"] == out.splitlines() and summary["listing"][-1].strip().split()[1] == "end"
    assert (tmp_path / "mlp.bin").stat().st_size == summary["commands"] * COMMAND_BYTES > 0
    code, out, _ = adagp("disasm", tmp_path / "mlp.bin")
    assert code == 0 and len(out.splitlines()) == len(summary["listing"])


def test_diff_agrees(adagp, tmp_path):
    arguments = ("diff", "--model", "mlp", "--shape", "1,3,5", "--batch", "3", "--json", tmp_path / "diff.json")
    code, out, _ = adagp(*arguments)
    assert code == 0 and out.startswith("golden and sim agree on every element of ")
    assert json.loads((tmp_path / "diff.json").read_text()) == {"equal": True, "difference": None}


def test_designs_that_predict_are_listed_and_compared(adagp, tmp_path):
    """Program and batches are those of the design: on-chip weights, scales and GP batches too."""
    arguments = ("--model", "mlp", "--shape", "1,3,5", "--batch", "3", "--variant", "max", "--preset", "tiny")
    listing = adagp("disasm", *arguments)[1]
    assert "reorganise" in listing and "predictor" in listing
    assert "reorganise" not in adagp("disasm", *arguments, "--gradient-source", "mean")[1]
    code, out, err = adagp("diff", *arguments)
    assert code == 0 and out.startswith("golden and sim agree on every element of "), err


@pytest.mark.parametrize("source", ["predicted", "mean"])
def test_diff_finds_a_command_of_a_gp_batch(adagp, tmp_path, monkeypatch, source):
    """One device has another learning rate from then on."""
    correct, devices = GoldenDevice.start, []

    def start(self, program, phase=None, *args, **options):
        if self not in devices:
            devices.append(self)
        if phase == 2 and self is not devices[0]:
            self.machine.hyper[0] = self.machine.hyper[1]
        correct(self, program, phase, *args, **options)

    monkeypatch.setattr(GoldenDevice, "start", start)
    arguments = ("--model", "mlp", "--shape", "1,3,5", "--batch", "3", "--variant", "low", "--gradient-source", source)
    code, _, _ = adagp("diff", *arguments, "--devices", "golden,golden", "--json", tmp_path / "diff.json")
    found = json.loads((tmp_path / "diff.json").read_text())["difference"]
    assert code == 1 and found["batch"] == 3 and found["line"].split()[1] == "update"


def test_diff_finds_the_command(adagp, tmp_path, monkeypatch):
    correct, devices = GoldenDevice.set_hyper, []

    def set_hyper(self, index, mantissa, exponent):
        if self not in devices:
            devices.append(self)
        correct(self, index, mantissa + (self is not devices[0]), exponent)

    monkeypatch.setattr(GoldenDevice, "set_hyper", set_hyper)
    arguments = ("diff", "--model", "mlp", "--shape", "1,3,5", "--batch", "3", "--devices", "golden,golden")
    code, out, _ = adagp(*arguments, "--json", tmp_path / "diff.json")
    found = json.loads((tmp_path / "diff.json").read_text())["difference"]
    listing = adagp("disasm", "--model", "mlp", "--shape", "1,3,5", "--batch", "3", "--preset", "tiny")[1].splitlines()
    updates = [line.strip() for line in listing if line.split()[1] == "update"]
    assert code == 1 and found["line"] == updates[0] and found["tensor"].partition(".")[0] in found["line"]
    assert out.startswith(found["line"]) and f"the reference has {found['reference']}" in out


def test_designs_have_folders_of_their_own(adagp, tmp_path, monkeypatch):
    """The same command for another design or source doesn't meet the run of the one before."""
    monkeypatch.chdir(tmp_path)
    more = ("--model", "mlp", "--warmup-epochs", "1", "--phases", "1:1")
    for options in ((), ("--variant", "low", *more), ("--variant", "low", "--gradient-source", "zero", *more)):
        code, _, err = adagp("train", "--device", "golden", *SMALL, *options)
        assert code == 0, err
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(names) == 3 and [name.rpartition("0")[2] for name in names] == ["", "-low-predicted", "-low-zero"]


def test_an_epoch_without_backpropagation_has_no_training_loss(adagp, tmp_path):
    """The log says that it isn't known, and so do table, plot and file."""
    options = ("--variant", "low", "--warmup-epochs", "1", "--phases", "9:0", "-o", tmp_path / "run")
    code, _, err = adagp("train", "--device", "golden", *SMALL, *options)
    assert code == 0 and "train loss unknown" in err
    log = RunFolder(tmp_path / "run").log
    assert log[0]["train_loss"] > 0 and log[1]["train_loss"] is None and log[1]["train_accuracy"] is None
    assert 0 <= log[1]["test_accuracy"] <= 1
    assert adagp("report", tmp_path / "run")[0] == 0
    assert (tmp_path / "run" / "log.csv").read_text().splitlines()[2].startswith("2,,,")


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
    """Of batches 3 to 5 two are skipped: the timeline's window has the one behind them."""
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
