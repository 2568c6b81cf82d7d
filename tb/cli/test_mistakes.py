"""The command line: what it says about mistakes, and what it leaves alone then."""

from itertools import count

import pytest
from adagp.host.devices.golden import GoldenDevice
from adagp.host.training.run_folder import RunFolder
from adagp.spec.commands import COMMAND_BYTES
from command_line import SMALL

MODEL = """
from torch import nn

def half(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, n_classes).half())

def wrong_size(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(63, n_classes))

def crashes(shape, n_classes):
    return 1 / 0

def too_few(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 9))

def mixed(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, n_classes).double())

def no_network(shape, n_classes):
    return "[/] a string"
"""

MISTAKES = {
    "preset": (("info", "--preset", "huge"), "no preset 'huge'; there are: tiny, ecp5, ecp5_8x8, paper"),
    "preset of generate": (("generate", "--preset", "huge"), "no preset 'huge'"),
    "device": (("train", "--device", "gpu"), "no device 'gpu'; there are: sim, golden"),
    "devices": (("diff", "--devices", "golden,gpu"), "devices = 'golden,gpu' must name two of sim, golden"),
    "data": (("train", "--device", "golden", "--data", "mnist"), "no data set 'mnist'"),
    "data folder": (("train", "--data", "cifar10"), "--data-dir"),
    "data file": (("train", "--data", "fashion-mnist", "--data-dir", "HERE"), "no train-images-idx3-ubyte[.gz] (nor"),
    "shape": (("disasm", "--shape", "3,32"), "shape = '3,32' must be CHANNELS,HEIGHT,WIDTH, e.g. 3,32,32"),
    "shape of zeros": (("diff", "--shape", "3,0,32"), "shape = '3,0,32' must be"),
    "model": (("disasm", "--model", "resnet"), "no model 'resnet'; there are: digits-cnn"),
    "model file": (("disasm", "--model", "HERE/none.py:net"), "HERE/none.py:net: the file HERE/none.py is missing"),
    "model function": (("disasm", "--model", "HERE/net.py:net"), "HERE/net.py has no function net"),
    "model syntax": (("disasm", "--model", "HERE/torn.py:net"), "HERE/torn.py can't be loaded: SyntaxError"),
    "model layer": (("disasm", "--model", "HERE/net.py:half"), "1 (Linear): its weight is float16"),
    "model size": (("disasm", "--model", "HERE/net.py:wrong_size"), "Linear"),
    "model crash": (("disasm", "--model", "HERE/net.py:crashes"), "ZeroDivisionError: division by zero"),
    "model type": (
        ("disasm", "--model", "HERE/net.py:no_network"),
        "gave a value of type str; a torch.nn.Module is needed",
    ),
    "model outputs": (
        ("train", "--device", "golden", "--model", "HERE/net.py:too_few"),
        "HERE/net.py:too_few has 9 outputs, digits has 10 classes",
    ),
    "model for the images": (("disasm", "--model", "lenet", "--shape", "1,2,2"), "lenet: the images are too small"),
    "model that pools": (("compile", "--shape", "1,2,3"), "digits-cnn: the images are too small, its poolings leave"),
    "model twice": (("compile", "mlp", "--model", "digits-cnn"), "mlp and --model digits-cnn name a network each"),
    "model of two types": (("disasm", "--model", "HERE/net.py:mixed"), "3 (Linear): its weight is float64, and param"),
    "trace": (("train", "--preset", "tiny", "--trace", "5"), "trace = '5' must be FIRST:LAST with FIRST <= LAST"),
    "trace beyond": (("train", "--preset", "tiny", "--trace", "2:9999"), "trace = '2:9999' must be FIRST:LAST"),
    "trace of golden": (("train", "--device", "golden", "--trace", "1:2"), "trace needs the device sim"),
    "timeline": (
        ("train", "--preset", "tiny", "--timeline", "0:x"),
        "timeline = '0:x' must be FIRST:LAST with FIRST <= LAST",
    ),
    "timeline of golden": (("train", "--device", "golden", "--timeline", "1:2"), "timeline needs the device sim"),
    "epochs": (("train", "--epochs", "0"), "epochs = 0 must be at least 1"),
    "schedule": (("train", "--schedule", "warm"), "schedule = 'warm' must be one of constant, cosine, step"),
    "variant": (("train", "--variant", "best"), "variant = 'best' must be one of baseline, low, efficient, max"),
    "dataflow": (("train", "--dataflow", "ss"), "dataflow = 'ss' must be one of free, ws, is, os"),
    "dataflow of compile": (("compile", "--dataflow", "is_"), "dataflow = 'is_' must be one of free, ws, is, os"),
    "dataflow without hardware": (("train", "--dataflow", "rs"), "os; 'rs' is a model without hardware, for adagp"),
    "dataflow of estimate": (("estimate", "--dataflow", "WS"), "dataflow = 'WS' must be one of free, ws, is, os, rs"),
    "source": (("train", "--variant", "low", "--gradient-source", "none"), "gradient_source = 'none' must be one of"),
    "source of the baseline": (
        ("train", "--gradient-source", "zero"),
        "gradient_source = 'zero' needs a variant with GP batches: low, efficient, max",
    ),
    "options without effect": (
        ("train", "--phases", "2:1", "--plateau-patience", "3"),
        "phases: of no effect with variant = 'baseline'; plateau_patience: of no effect with schedule = 'cosine'",
    ),
    "predictor's rate of none": (
        ("train", "--variant", "low", "--gradient-source", "zero", "--predictor-rate", "0.1"),
        "error: predictor_rate: of no effect with gradient_source = 'zero'\n",
    ),
    "no warm-up": (("train", "--variant", "max", "--warmup-epochs", "0"), "warmup_epochs = 0 must satisfy 1 <= "),
    "no warm-up of a control": (
        ("train", "--variant", "low", "--gradient-source", "zero", "--warmup-epochs", "0"),
        "warmup_epochs = 0 must satisfy 1 <= ",
    ),
    "much warm-up": (("train", "--variant", "max", "--warmup-epochs", "70000"), "<= warmup_epochs <= 65535"),
    "phases": (("train", "--variant", "max", "--phases", "4"), "phases = '4' must be of the form EPOCHS*GP:BP"),
    "long phases": (("train", "--variant", "max", "--phases", "256:1"), "batches at most 255"),
    "milestones": (("train", "--variant", "max", "--predictor-milestones", "3,2"), "must be rising epochs from 1 on"),
    "gamma": (
        ("train", "--variant", "max", "--predictor-milestones", "2,4", "--predictor-gamma", "1e-6"),
        "predictor_gamma = 1e-06: the rate must not fall to 1e-15",
    ),
    "gate": (("train", "--variant", "max", "--gate", "1.5"), "gate = 1.5 must be 0, or satisfy 1e-4 <= gate <= 1"),
    "batch": (("train", "--device", "golden", "--preset", "tiny", "--train-images", "7"), "batch = 32 exceeds the 7"),
    "run": (("report", "HERE/none"), "HERE/none isn't the folder of a run: it has no log.json"),
    "run to evaluate": (("evaluate", "HERE/none"), "HERE/none isn't the folder of a run: it has no settings.json"),
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
        assert code == 2 and err.count("\n") == 1 and "can't resume from" in err and "--fresh" in err


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
    lines = [line for line in err.splitlines() if "adagp: generat" not in line]  # where the Verilog isn't kept yet
    assert code == 1 and len(lines) == 1 and "no-such-compiler was not found" in lines[0]


@pytest.mark.parametrize(("waits", "says"), [
    (0, "interrupted; there is no checkpoint yet: the same command starts over"),
    (12, "interrupted; the same command goes on from the last checkpoint"),  # in the second epoch
])  # fmt: skip
def test_an_interrupt_says_how_to_go_on(adagp, tmp_path, monkeypatch, waits, says):
    wait, waited = GoldenDevice.wait, count()

    def interrupted(self):
        if next(waited) == waits:
            raise KeyboardInterrupt
        return wait(self)

    monkeypatch.setattr(GoldenDevice, "wait", interrupted)
    code, _, err = adagp("train", "--device", "golden", "-o", tmp_path / "run", *SMALL)
    assert code == 130 and says in err
