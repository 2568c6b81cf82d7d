"""The command line: what every command prints and writes, and what it says about mistakes."""

import csv
import json
import subprocess
import sys

import pytest
import torch
from adagp.host.cli import app, main
from adagp.host.golden_device import GoldenDevice
from adagp.host.run_folder import RunFolder
from adagp.spec.commands import COMMAND_BYTES
from adagp.spec.presets import PRESETS, preset

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SMALL = ("--preset", "tiny", "--batch", "8", "--train-images", "24", "--test-images", "10", "--epochs", "2")
COMMANDS = ("train", "evaluate", "report", "generate", "info", "disasm", "diff")


@pytest.fixture
def adagp(capsys, monkeypatch):
    """The command line, in this process: returns exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "200")
    torch.set_num_threads(1)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a finished run on the golden model."""
    folder = tmp_path_factory.mktemp("runs") / "golden"
    with pytest.raises(SystemExit) as ended:
        main(["train", "--device", "golden", "-o", str(folder), *SMALL, "--json", str(folder.parent / "golden.json")])
    assert ended.value.code == 0
    return folder


# --- help -------------------------------------------------------------------------------------


def test_help_lists_the_commands(adagp):
    code, out, _ = adagp("--help")
    assert code == 0 and all(f" {command} " in out for command in COMMANDS)
    assert tuple(command.callback.__name__ for command in app.registered_commands) == COMMANDS
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
    code = "import sys, adagp.host.cli; print([m for m in ('torch', 'amaranth', 'matplotlib') if m in sys.modules])"
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
    assert summary == {"preset": "tiny", "config_hash": preset("tiny").config_hash, "files": files}


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


# --- mistakes -----------------------------------------------------------------------------------

MODEL = """
from torch import nn

def unknown(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Sigmoid(), nn.Linear(64, n_classes))

def wrong_size(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(63, n_classes))

def crashes(shape, n_classes):
    return 1 / 0

def too_few(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 9))

def no_network(shape, n_classes):
    return "[/] a string"
"""

MISTAKES = {
    "preset": (("info", "--preset", "huge"), "no preset 'huge'; there are: tiny, ecp5, paper"),
    "preset of generate": (("generate", "--preset", "huge"), "no preset 'huge'"),
    "device": (("train", "--device", "gpu"), "no device 'gpu'; there are: sim, golden"),
    "devices": (("diff", "--devices", "golden,gpu"), "devices = 'golden,gpu' must name two of sim, golden"),
    "data": (("train", "--device", "golden", "--data", "mnist"), "no data set 'mnist'"),
    "data folder": (("train", "--data", "cifar10"), "--data-dir"),
    "data file": (("train", "--data", "fashion-mnist", "--data-dir", "HERE"), "no train-images-idx3-ubyte[.gz] (nor"),
    "shape": (("disasm", "--shape", "3,32"), "shape = '3,32' must be CHANNELS,HEIGHT,WIDTH, e.g. 3,32,32"),
    "shape of zeros": (("diff", "--shape", "3,0,32"), "shape = '3,0,32' must be"),
    "model": (("disasm", "--model", "resnet"), "no model 'resnet'; there are: digits-cnn"),
    "model file": (("disasm", "--model", "HERE/none.py:net"), "no file HERE/none.py"),
    "model function": (("disasm", "--model", "HERE/net.py:net"), "HERE/net.py has no function net"),
    "model syntax": (("disasm", "--model", "HERE/torn.py:net"), "HERE/torn.py can't be loaded: SyntaxError"),
    "model layer": (("disasm", "--model", "HERE/net.py:unknown"), "1 (Sigmoid): "),
    "model size": (("disasm", "--model", "HERE/net.py:wrong_size"), "Linear"),
    "model crash": (("disasm", "--model", "HERE/net.py:crashes"), "ZeroDivisionError: division by zero"),
    "model type": (("disasm", "--model", "HERE/net.py:no_network"), "gave a str; a torch.nn.Sequential is needed"),
    "model outputs": (
        ("train", "--device", "golden", "--model", "HERE/net.py:too_few"),
        "HERE/net.py:too_few has 9 outputs, digits has 10 classes",
    ),
    "model for the images": (("disasm", "--model", "lenet", "--shape", "1,2,2"), "3 (Conv2d): a kernel of 5x5 doesn't"),
    "trace": (("train", "--preset", "tiny", "--trace", "5"), "trace = '5' must be FIRST:LAST with FIRST <= LAST"),
    "trace beyond": (("train", "--preset", "tiny", "--trace", "2:9999"), "trace = '2:9999' must be FIRST:LAST"),
    "trace of golden": (("train", "--device", "golden", "--trace", "1:2"), "trace needs the device sim"),
    "epochs": (("train", "--epochs", "0"), "epochs = 0 must be at least 1"),
    "schedule": (("train", "--schedule", "warm"), "schedule = 'warm' must be one of constant, cosine, step"),
    "batch": (("train", "--device", "golden", "--preset", "tiny", "--train-images", "7"), "batch = 32 exceeds the 7"),
    "run": (("report", "HERE/none"), "no log.json in HERE/none"),
    "run to evaluate": (("evaluate", "HERE/none"), "no settings.json in HERE/none"),
    "program": (("disasm", "HERE/none.bin"), "HERE/none.bin: No such file or directory"),
    "program size": (("disasm", "HERE/net.py"), f"which is no multiple of {COMMAND_BYTES}"),
    "program content": (("disasm", "HERE/random.bin"), "not a program: "),
    "output": (("generate", "--preset", "tiny", "-o", "HERE/net.py/made"), "HERE/net.py/made: Not a directory"),
    "JSON": (("info", "--json", "HERE/net.py/info.json"), "HERE/net.py"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line(adagp, mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "torn.py").write_text("def net(:\n")
    (tmp_path / "random.bin").write_bytes(bytes([255]) * COMMAND_BYTES)
    arguments, message = MISTAKES[mistake]
    code, _, err = adagp(*(argument.replace("HERE", str(tmp_path)) for argument in arguments))
    assert code == 2
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message.replace("HERE", str(tmp_path)) in err


def test_mistyped_options_are_explained(adagp):
    code, _, err = adagp("train", "--epoch", "3")
    assert code == 2 and "--epochs" in err
    assert adagp("trian")[0] == 2
    assert adagp("train", "--batch", "many")[0] == 2


def test_a_torn_checkpoint_gets_one_line(adagp, trained, tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin(RunFolder(trained).settings)
    content = (trained / "checkpoint.npz").read_bytes()
    for part in (b"", content[:100], content[: len(content) // 2]):
        (tmp_path / "checkpoint.npz").write_bytes(part)
        code, _, err = adagp("evaluate", tmp_path, "--device", "golden")
        assert code == 2 and err.count("\n") == 1 and "can't resume from" in err


def test_files_of_others_are_kept(adagp, tmp_path):
    (tmp_path / "weights.pt").write_text("precious")
    code, _, err = adagp("train", "--device", "golden", "-o", tmp_path, *SMALL)
    assert code == 2 and f"{tmp_path} holds weights.pt but no run" in err and err.count("\n") == 1
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("weights.pt", "precious")]


def test_a_checkpoint_of_another_network_is_refused(adagp, tmp_path):
    model = tmp_path / "net.py"
    options = ("--device", "golden", "--model", f"{model}:too_few", "-o", tmp_path / "run", *SMALL)
    model.write_text(MODEL.replace("64, 9)", "64, 10)"))
    assert adagp("train", *options)[0] == 0
    (tmp_path / "run" / "summary.json").unlink()  # as if killed at the end
    model.write_text(MODEL.replace("nn.Linear(64, 9)", "nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 10)"))
    code, _, err = adagp("train", *options)
    assert code == 2 and "belongs to another network than" in err and err.count("\n") == 1
    model.write_text(MODEL.replace("64, 9)", "64, 10)"))
    assert adagp("train", *options)[0] == 0


def test_a_failing_tool_gets_one_line(adagp, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    code, _, err = adagp("train", "--preset", "tiny", "-o", tmp_path / "run")
    assert code == 1 and err.count("\n") == 1 and "no-such-compiler was not found" in err


def test_an_interrupt_says_how_to_go_on(adagp, tmp_path, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(GoldenDevice, "wait", interrupted)
    code, _, err = adagp("train", "--device", "golden", "-o", tmp_path / "run", *SMALL)
    assert code == 130 and "interrupted; the same command goes on" in err
