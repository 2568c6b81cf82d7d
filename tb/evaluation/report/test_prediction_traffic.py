"""Options that spare traffic of predictions: savings by hand, and the page's section."""

import json

import pytest
from adagp.evaluation.benches.prediction_traffic import OPTIONS, figures, part_of
from adagp.evaluation.instruments.estimates import UNTAUGHT, Batch
from adagp.evaluation.instruments.paper_batches import KEPT, STREAMED, Case
from adagp.evaluation.instruments.variants import shares
from adagp.evaluation.report import prediction_traffic
from adagp.evaluation.report.accuracy.findings import Findings


def batch(read):
    return Batch({"cycles": read, "read_bytes": read, "write_bytes": 0, "macs": 0})


def test_savings_by_hand():
    """With none of the predictor's traffic in three of four batches, and less in those of GP."""
    baseline = {"forward": batch(100_000), "bp": batch(300_000)}
    taught, gp = batch(340_000), batch(160_000)
    design = {"warmup": taught, "bp": taught, "gp": gp, UNTAUGHT: batch(300_000)}
    design |= {KEPT: batch(120_000), STREAMED: batch(110_000)}
    part, share = "vgg13_cifar10", shares()["gp"]
    found = figures(part, baseline, design)
    expected = {
        "built": (1 - share) * 340 + share * 160, "every": (1 - share) * 310 + share * 160,
        "keep": (1 - share) * 340 + share * 120, "both": (1 - share) * 310 + share * 120,
        "both_8": (1 - share) * 305 + share * 120, "both_16": (1 - share) * 302.5 + share * 120,
        "stream": (1 - share) * 310 + share * 110,
    }  # fmt: skip
    for option, energy in expected.items():
        assert found[f"dram_energy_saving_{part}_{option}"] == pytest.approx(1 - energy / 300, abs=6e-5)
    assert found[f"speedup_{part}_stream"] == pytest.approx(300 / expected["stream"], abs=6e-5)
    assert found[f"ideal_saving_{part}"] == pytest.approx(share * 2 / 3, abs=6e-5)


def test_a_mean_is_of_all_networks_with_the_data_and_batch():
    parts = [part_of(Case(model, "cifar10", "free"), 128) for model in ("vgg13", "vgg16", "resnet50")]
    assert parts[0] == "vgg13_cifar10_128" and part_of(Case("vgg13", "cifar10", "free"), 32) == "vgg13_cifar10"
    found = {f"ideal_saving_{part}": 0.3 for part in parts}
    for saving, part in zip((0.1, 0.2, 0.6), parts, strict=True):
        found |= {
            f"{figure}_{part}_{option}": saving for figure in ("dram_energy_saving", "speedup") for option in OPTIONS
        }
    del found[f"speedup_{parts[0]}_stream"]
    text = prediction_traffic.energy({"figures": found, "details": {part: {} for part in parts}})
    (saved, fast) = (line for line in text.splitlines() if line.startswith("| mean of 3, CIFAR-10, batch 128 |"))
    assert saved.split(" | ")[1:] == ["30.0 %"] * 7 + ["30.0 % |"]
    assert fast.split(" | ")[1:] == ["0.300"] * 6 + [" |"]


def test_the_page_says_what_the_results_do():
    text = prediction_traffic.PATH.read_text()
    results = json.loads(prediction_traffic.ENERGY.read_text())
    found = prediction_traffic.document(text, results, Findings.read(prediction_traffic.ACCURACY))
    assert text == found, "run python -m adagp.evaluation.report.prediction_traffic"
