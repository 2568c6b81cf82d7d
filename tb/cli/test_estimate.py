"""``adagp estimate``: what it prints and writes, and its refusals."""

import json

import pytest
from adagp.host.compiler.dataflow import DATAFLOWS
from adagp.spec.presets import preset

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first


def test_a_design_that_predicts(adagp, tmp_path):
    path = tmp_path / "estimate.json"
    code, out, err = adagp("estimate", "--preset", "tiny", "--batch", 4, "--variant", "max", "--json", path)
    assert code == 0, err
    found = json.loads(path.read_text())
    phases = found["estimated"]
    assert list(phases) == ["warmup", "bp", "gp"]
    assert phases["bp"]["cycles"] > phases["gp"]["cycles"] > phases["gp"]["array_cycles"] > 0
    for batch in phases.values():
        assert f"{batch['cycles']:,}" in out and f"{batch['read_bytes'] / 1e6:.4g}" in out
        assert batch["limited_by"].split()[0] in out
        useful, padded = batch["useful_utilisation"], batch["utilisation"]
        assert 0 < useful < padded == batch["macs"] / batch["cycles"] / preset("tiny").n_pes < 1
        assert useful == batch["useful_macs"] / batch["cycles"] / preset("tiny").n_pes
        assert f"{100 * useful:.1f} %" in out and f"{100 * padded:.1f} %" in out
        assert f"limited by the {batch['limited_by']}, " in out
        assert sum(batch["millijoules_by_command"].values()) == pytest.approx(batch["millijoules"])
        assert sum(count for key, count in batch["moved"].items() if key.endswith(" read")) == batch["read_bytes"]
    assert 1 < found["limit"] < 2 and 0 < found["speed_up"] < found["limit"]
    assert found["dram_energy_saving"] < found["ideal_saving"] < 0.5
    assert f"(at most {100 * found['ideal_saving']:.1f} %)" in out
    assert f"compiled and estimated in {found['seconds']:.1f} s" in out and "epochs of the data set" not in out
    assert f"{found['speed_up']:.3f} times as fast as the baseline" in out and f"at most {found['limit']:.3f}" in out


def test_the_baseline_and_data_sets(adagp, tmp_path):
    path = tmp_path / "estimate.json"
    given_by_name = {
        "shape": ("--shape", "1,28,28", "--classes", 10),
        "data": ("--data", "fashion-mnist"),
        "other": ("--data", "cifar10"),
    }
    for name, given in given_by_name.items():
        code, out, err = adagp("estimate", "--model", "lenet", "--batch", 2, *given, "--json", tmp_path / name)
        assert code == 0, err
        assert "times as fast" not in out and ("90 epochs of the data set: " in out) == (name != "shape")
    shape, data, other = (json.loads((tmp_path / name).read_text()) for name in ("shape", "data", "other"))
    batch = data["estimated"]["bp"]
    assert shape["estimated"] == data["estimated"] != other["estimated"] and list(shape["estimated"]) == ["bp"]
    assert data["hours"] == pytest.approx(90 * 60_000 / 2 * batch["cycles"] / preset("ecp5").clock_hz / 3600)
    assert data["kilojoules"] == pytest.approx(90 * 60_000 / 2 * batch["millijoules"] / 1e6)
    assert data["baseline_kilojoules"] == pytest.approx(data["kilojoules"]) and "instead of" not in out
    assert not path.exists()


def test_a_whole_run_of_a_design_that_predicts(adagp, tmp_path):
    """Hours and energy are in the ratio of the speed-up and of the saving."""
    path = tmp_path / "estimate.json"
    options = ("--preset", "tiny", "--data", "digits", "--batch", 8, "--variant", "low", "--json", path)
    code, out, err = adagp("estimate", *options)
    assert code == 0, err
    found = json.loads(path.read_text())
    assert found["baseline_hours"] / found["hours"] == pytest.approx(found["speed_up"])
    assert 1 - found["kilojoules"] / found["baseline_kilojoules"] == pytest.approx(found["dram_energy_saving"])
    assert f"90 epochs of the data set: {found['hours']:.4g} hours instead of {found['baseline_hours']:.4g}" in out


def test_dataflows(adagp, tmp_path):
    """Each is said where it isn't the default, and has the cycles of its own mapping."""
    found = {}
    for dataflow in DATAFLOWS:
        path = tmp_path / f"{dataflow}.json"
        options = ("--preset", "paper", "--batch", 4, "--variant", "max", "--dataflow", dataflow, "--json", path)
        code, out, err = adagp("estimate", *options)
        assert code == 0, err
        assert (f"dataflow {dataflow}" in " ".join(out.split())) == (dataflow != "free")
        found[dataflow] = json.loads(path.read_text())
    cycles = {name: each["estimated"]["bp"]["cycles"] for name, each in found.items()}
    assert len(set(cycles.values())) == 4 and cycles["free"] < 1.01 * min(cycles.values())
    assert len({each["backward_to_forward"] for each in found.values()}) == 4  # the baseline has the same dataflow
    assert len({each["estimated"]["bp"]["macs"] for each in found.values()}) == 1


def test_mistakes(adagp):
    for given, message in (
        (("--data", "mnist"), "data = 'mnist' must be one of digits"),
        (("--model", "resnet"), "no model 'resnet'; there are: digits-cnn"),
        (("--model", "net.py"), "net.py names a file without a function"),
        (("--model", "resnet"), "inception-v4, inception-v3, densenet201"),
        (("--data", "cifar10", "--shape", "3,8,8"), "says shape and classes"),
        (("--against", "board"), "against = 'board' must be sim"),
        (("--against", "sim", "--dataflow", "rs"), "dataflow = 'rs' is a model, of which there is no RTL"),
        (("--shape", "3"), "shape = '3' must be CHANNELS,HEIGHT,WIDTH"),
    ):
        code, _, err = adagp("estimate", *given)
        assert code == 2 and message in err
    code, _, err = adagp("train", "--device", "estimate")
    assert code == 2 and "nothing trains on it: see `adagp estimate`" in err


def test_against_the_simulated_rtl(adagp, tmp_path):
    path = tmp_path / "estimate.json"
    code, out, err = adagp("estimate", "--preset", "tiny", "--batch", 2, "--against", "sim", "--json", path)
    assert code == 0, err
    found = json.loads(path.read_text())
    ours, theirs = found["estimated"]["bp"], found["simulated"]["bp"]
    assert ours["write_bytes"] == theirs["write_bytes"] > 0
    assert ours["cycles"] == pytest.approx(theirs["cycles"], rel=0.01)
    assert f"{theirs['cycles']:,} cycles (error {100 * (ours['cycles'] / theirs['cycles'] - 1):+.2f} %)" in out
