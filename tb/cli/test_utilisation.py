"""Utilisation as commands tell it: useful products first, and beside them those with the zeros of padding."""

import json

import pytest
from adagp.cli.report import used, utilisations
from adagp.host.training.settings import TrainSettings
from adagp.spec.presets import preset


def test_padding_is_not_useful(adagp, tmp_path):
    path = tmp_path / "costs.json"
    code, out, err = adagp("compile", "digits-cnn", "--batch", 4, "--preset", "tiny", "--json", path)
    assert code == 0, err
    found = json.loads(path.read_text())
    first = found["operators"][0]
    pairs = (3 * 8 - 2) ** 2  # of a result and a pixel of its window, by rows times columns
    channels = first["macs"] // (4 * 64 * (9 + 10))  # forward and weight's gradient, with that of the bias
    assert first["name"] == "0.Conv2d" and channels > 1
    assert first["useful_macs"] == 4 * channels * (2 * pairs + 64)
    assert found["total"]["useful_macs"] == sum(row["useful_macs"] for row in found["operators"])
    useful, padded = found["useful_utilisation"], found["utilisation"]
    assert useful < padded
    assert useful / padded == pytest.approx(found["total"]["useful_macs"] / found["total"]["macs"])
    assert f"useful utilisation of the array {100 * useful:.1f} %, {100 * padded:.1f} % with the zeros" in out


def test_of_a_row_of_the_log():
    """Earlier versions logged no useful products, and the golden model has no cycles."""
    settings = TrainSettings(preset="tiny")
    row = {"cycles": 1000, "useful_macs": 250 * preset("tiny").n_pes, "macs": 500 * preset("tiny").n_pes}
    assert utilisations(row, settings) == {"useful_utilisation": 0.25, "utilisation": 0.5}
    assert used(row, settings) == "25.0 % of cycles usefully, in 50.0 % of cycles with the zeros of padding"
    del row["useful_macs"]
    assert used(row, settings) == "50.0 % of cycles with the zeros of padding"
    assert utilisations({**row, "cycles": 0}, settings) == {}
