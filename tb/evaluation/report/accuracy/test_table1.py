"""Table 1 on the page, beside what was trained."""

import json

from adagp.evaluation.report.accuracy.table1 import here, trained
from digests import AA


def _run(method, seed, test, over=True):
    return {"method": method, "seed": seed, "test": test, "over": over, "epochs": 90 if over else 30, "seconds": 90.0,
            "batches": {"warmup": 1, "gp": 3} if method != "bp-1" else {"warmup": 4}}  # fmt: skip


def _written(folder, runs, quality=75, names=("vgg13", "vgg13-device-cpu")):
    settings = {"epochs": 90, "batch": 128, "momentum": 0.9, "weight_decay": 0.0, "jpeg_quality": quality}
    detail = {"runs": runs, "settings": settings, "examples": {"train": 45000, "validation": 5000, "test": 10000}}
    origin = {"processor": "a GPU", "command": "x", "seed": [0], "commit": "1" * 40, "tools": {"torch": "2"},
              "code": {"library": "aa"}}  # fmt: skip
    parts = dict.fromkeys(names, detail)
    (folder / "table1.json").write_text(json.dumps({
        "figures": {}, "details": {name: {"figures": [], "details": part} for name, part in parts.items()},
        "provenance": dict.fromkeys(parts, origin),
    }))  # fmt: skip


def test_before_any_run_it_says_so(tmp_path):
    assert here(tmp_path) == {} and trained(tmp_path, AA).endswith("\n\nNot run.")


def test_runs_that_are_over_are_in_the_table(tmp_path):
    _written(tmp_path, [_run("bp-1", 0, 80.0), _run("bp-1", 1, 82.0), _run("ada-gp", 0, None)])
    assert here(tmp_path) == {
        ("vgg13", "cifar10"): "BP 81.00 ± 1.41, ADA-GP 0.00; see *Trained by the paper's settings*"
    }  # fmt: skip
    text = trained(tmp_path, AA)
    assert "| `bp-1` | 2 | 81.00 ± 1.41 | 0 | 1.00 |  |" in text and "| `ada-gp` | 1 | 0.00 | 75 | 1.00 |  |" in text
    assert "JPEG files of quality 75, not the ones" in text and text.count("###") == 1 and "Not run" not in text
    assert "91.52 % with BP and 92.55 % with ADA-GP" in text and "<summary>Current" in text


def test_runs_in_part_have_no_accuracy(tmp_path):
    _written(tmp_path, [_run("bp-1", 0, 80.0, over=False)], quality=None)
    assert here(tmp_path)["vgg13", "cifar10"].startswith("BP not run to the end, ADA-GP not run to the end")
    text = trained(tmp_path, AA)
    assert "| `bp-1` | 0 | not run to the end | 0 | 3.00 | seed 0: 30 epochs, 80.00 % |" in text
    assert "The images are as published." in text


def test_runs_in_bf16_are_told_apart(tmp_path):
    _written(tmp_path, [_run("bp-1", 0, 80.0)], names=("resnet50-autocast-bf16",))
    assert here(tmp_path)["resnet50", "cifar10"].startswith("in bf16: BP 80.00, ADA-GP not run to the end; see")
    assert "### resnet50, forward and backward passes in bf16" in trained(tmp_path, AA)
    _written(tmp_path, [_run("bp-1", 0, 80.0)], names=("vgg13", "vgg13-autocast-bf16"))
    assert here(tmp_path)["vgg13", "cifar10"].startswith("BP 80.00, ADA-GP not run to the end; see")
