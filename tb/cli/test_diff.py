"""``adagp diff``: devices that agree, and the first command in which others differ."""

import json

import pytest
from adagp.host.devices.golden import GoldenDevice

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first


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
