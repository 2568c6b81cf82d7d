"""``adagp evaluate``: the same figures on every device."""

import json

import pytest
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.run_folder import RunFolder
from adagp.spec.presets import preset
from command_line import SMALL

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first


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
    summary, last = RunFolder(tmp_path / "run").summary, RunFolder(tmp_path / "run").log[-1]
    shares = [100 * last[name] / last["cycles"] / preset("tiny").n_pes for name in ("useful_macs", "macs")]
    assert [100 * summary[name] for name in ("useful_utilisation", "utilisation")] == pytest.approx(shares)
    assert 0 < shares[0] < shares[1]
    told = f"PEs multiply in {shares[0]:.1f} % of cycles usefully, in {shares[1]:.1f} % of cycles with the zeros"
    assert code == 0 and told in out and "DRAM" in out


def test_a_run_is_evaluated_where_it_was_trained(adagp, trained, monkeypatch):
    monkeypatch.setattr(SimDevice, "__init__", lambda *_, **__: pytest.fail("simulated"))
    code, out, _ = adagp("evaluate", trained)
    assert code == 0 and "(10 images)" in out
