"""The tables of networks: each figure is the results', and what wasn't measured isn't there."""

import json

import pytest
from adagp.evaluation.report.networks import networks
from adagp.spec.config import SWITCHES

FIGURES = {"hash_equal_bp": True, "hash_equal_gp": False, "device_share_of_macs": 1.0, "device_share_of_bytes": 0.99994,
           "cycles_bp": 4561466, "cycles_gp": 3040430}  # fmt: skip


def written(folder, name, part, figures, details):
    parts = {part: {"figures": sorted(figures), "details": details}}
    made = {"figures": figures, "details": parts, "provenance": {part: {"commit": "c9e1f62455e4472d"}}}
    (folder / f"{name}.json").write_text(json.dumps(made))


def design(switches=SWITCHES):
    hosted = {"add": 3, "mul": 9, "exp": 1, "softmax": 2, "gelu": 4, "view": 1}
    config = {"preset": "paper", "switches": list(switches)}
    return {"baseline": {"config": config, "inputs": [[3, 16, 8]], "batch": 2, "host_operators": hosted}}


def rows_of(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_rows_are_the_results(tmp_path):
    assert networks(tmp_path) == ""
    written(tmp_path, "models", "net-a", {f"{key}_net_a": value for key, value in FIGURES.items()}, design())
    text = networks(tmp_path)
    assert (
        "of 2 images or sentences" in " ".join(text.split())
        and "preset `paper`" in text
        and "by kind of command" not in text
    )
    assert rows_of(text)[2:] == [
        ["net-a", "3x16x8", "BP", "100.00 %", "99.99 %", "9 mul, 4 gelu, 3 add, 2 softmax, 2 others", "4,561,466",
         "3,040,430", "`c9e1f62455e4`"],
    ]  # fmt: skip
    kinds = {"cycles_net_a": 1000, "share_norm_net_a": 0.25, "share_strided_forward_net_a": 0.75}
    written(tmp_path, "kinds", "net-a", kinds, {"batch": 8})
    run = {"settings": {"model": "net-a", "data": "digits 50fd", "seed": 3}}
    trained = {"train_images": 5000, "epochs": 5, "fp32_accuracy": 0.5, "int16_accuracy": 0.49, "delta_points": -1.0,
               "delta_sem_points": 0.25}  # fmt: skip
    details = {"runs": {"int16": [run, {"settings": {**run["settings"], "seed": 7}}]}}
    written(tmp_path, "numerics_graphs", "one", {f"one_{key}": value for key, value in trained.items()}, details)
    found = rows_of(networks(tmp_path))
    assert [row for row in found if len(row) == 2][2:] == [
        ["strided forward", "75.00 %"], ["norm", "25.00 %"], ["cycles", "1,000"], ["images", "8"],
        ["commit", "`c9e1f62455e4`"],
    ]  # fmt: skip
    assert found[-1] == ["net-a", "digits", "3 to 7", "5,000", "5", "50.00 %", "49.00 %", "-1.00 ± 0.25",
                         "`c9e1f62455e4`"]  # fmt: skip


def test_a_design_without_a_switch_has_no_row(tmp_path):
    figures = {f"{key}_net_a": value for key, value in FIGURES.items()}
    written(tmp_path, "models", "net-a", figures, design(SWITCHES[1:]))
    with pytest.raises(ValueError, match=r"models\.json: net-a was measured without all switches"):
        networks(tmp_path)
