"""Deferred updates: bytes by hand, the bench's file, and the page's part."""

import json

import pytest
from adagp.evaluation.benches import deferred_traffic as bench
from adagp.evaluation.instruments.energy import MODULE
from adagp.evaluation.instruments.estimates import UNTAUGHT, Batch
from adagp.evaluation.instruments.paper_batches import KEPT, STREAMED
from adagp.evaluation.instruments.variants import shares
from adagp.evaluation.report import deferred_updates
from adagp.evaluation.report.accuracy.findings import Findings

WEIGHTS = 1000


def batch(read, written):
    return Batch({"cycles": 1, "read_bytes": read, "write_bytes": written})


BASELINE = {"bp": batch(300_000, 150_000), "forward": batch(100_000, 50_000)}
DESIGN = {
    "warmup": batch(340_000, 160_000), "bp": batch(340_000, 160_000), UNTAUGHT: batch(300_000, 150_000),
    KEPT: batch(107_500, 56_300), STREAMED: batch(105_500, 54_300),
}  # fmt: skip


def test_a_batch_by_hand():
    """The network has 1000 weights: the spilled batch writes 2000 bytes of predictions, any batch 4000 of weights."""
    assert bench.n_weights(DESIGN) == WEIGHTS
    assert bench.deferred(DESIGN).counters == {"read_bytes": 101_500, "write_bytes": 50_300}
    gp, part = shares()["gp"], "vgg13_cifar10"
    found = bench.figures(part, BASELINE, DESIGN)

    def saved(taught, read, written):
        """With so many of the batches with true gradients teaching, and such GP batches."""
        true = [(1 - gp) * (taught * a + (1 - taught) * b) for a, b in ((340, 300), (160, 150))]
        energy = (true[0] + gp * read) * MODULE.read_pj + (true[1] + gp * written) * MODULE.write_pj
        return 1 - energy / (300 * MODULE.read_pj + 150 * MODULE.write_pj)

    assert found == pytest.approx({
        f"dram_energy_saving_{part}_stream": saved(1 / 4, 105.5, 54.3),
        f"dram_energy_saving_{part}_deferred": saved(1 / 4, 101.5, 50.3),
        f"dram_energy_saving_{part}_deferred_taught": saved(1, 101.5, 50.3),
    }, abs=6e-5)  # fmt: skip


def test_batches_that_are_no_predictions_apart():
    with pytest.raises(ValueError, match="1 bytes less, which aren't predictions"):
        bench.n_weights({**DESIGN, KEPT: batch(0, 54_301)})
    with pytest.raises(ValueError, match="fewer bytes than the 4000 of its weights"):
        bench.deferred({KEPT: batch(5000, 5000), STREAMED: batch(5000, 3000)})


def test_the_bench_is_as_old_as_what_it_counts(tmp_path, capsys):
    counted = json.loads(deferred_updates.ENERGY.read_text())
    part = "vgg13_cifar10"
    few = {"details": {part: counted["details"][part]}, "provenance": {part: counted["provenance"][part]}}
    few["provenance"][part]["code"] = {"switches": "of another day"}
    (tmp_path / "counted.json").write_text(json.dumps(few))
    bench.main(["--counted", f"{tmp_path}/counted.json", "--json", f"{tmp_path}/found.json"])
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["provenance"][part]["code"] == {"switches": "of another day"}
    # VGG13's convolutions of 3 x 3, and its linear layer.
    pairs = ((3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), *3 * [(512, 512)])
    assert found["details"][part]["details"]["weights"] == 9 * sum(a * b for a, b in pairs) + 512 * 10
    stream = f"dram_energy_saving_{part}_stream"
    assert found["figures"][stream] == counted["figures"][stream]
    with pytest.raises(SystemExit):
        bench.main(["--counted", f"{tmp_path}/none.json"])
    assert "none.json: [Errno 2] No such file" in capsys.readouterr().err


def test_the_committed_figures_are_of_the_committed_count(tmp_path):
    again = tmp_path / "again.json"
    bench.main(["--json", str(again)])
    assert json.loads(again.read_text())["figures"] == json.loads(deferred_updates.COUNTED.read_text())["figures"]


def test_tables_by_hand():
    parts = ("vgg13_cifar10_128", "vgg16_cifar10_128")
    figures = {f"dram_energy_saving_{part}_{option}": saving for option in bench.OPTIONS
               for part, saving in zip(parts, (0.2, 0.4), strict=True)}  # fmt: skip
    ideal = {"figures": {f"ideal_saving_{part}": 0.5 for part in parts}}
    text = deferred_updates.energy({"figures": figures, "details": dict.fromkeys(parts)}, ideal)
    rows = [line for line in text.splitlines() if "batch 128" in line]
    assert rows == [
        "| vgg13, CIFAR-10, batch 128 | 20.0 % | 20.0 % | 20.0 % | 50.0 % |",
        "| mean of 2, CIFAR-10, batch 128 | 30.0 % | 30.0 % | 30.0 % | 50.0 % |",
    ]


def findings(tests):
    methods = {
        name: {"chosen": {"lr": 0.05}, "runs": [{"seed": seed, "test": test} for seed, test in enumerate(found)]}
        for name, found in tests.items()
    }  # fmt: skip
    figures = {f"{what}_r_{name}": value for name in tests for what, value in (("accuracy", tests[name][0]), ("sd", 1))}
    return {"r": Findings("r", figures, {"methods": methods}, {})}


def test_accuracies_by_hand():
    """Differences are to the other methods' runs of the same seeds, elsewhere."""
    mine = findings({"bp-1": (80, 80), "ada-gp-deferred": (71, 75)})
    others = findings({"bp-1": (80, 80.5), "ada-gp": (71, 75), "ada-gp-keep": (70, 72)})
    text = deferred_updates.accuracy(mine, others)
    told = " ".join(text.split())
    assert "by up to 0.50 points" in told and "r ADA-GP 0.05, `keep` 0.05, deferred 0.05. A difference" in told
    assert "`predictor_every` = 4, whose accuracy isn't measured in r." in told
    assert deferred_updates.accuracy({**mine, "another": mine["r"]}, others) == text
    cells = ["r", "deferred", *(f"{mean}.00 ± 1.00" for mean in (80, 71, 70, 71)), "+0.00 ± 0.00", "+2.00 ± 12.71"]
    assert text.splitlines()[-1] == f"| {' | '.join(cells)} |"
    others["r"].details["methods"]["ada-gp-keep"]["runs"][1]["test"] = None
    assert "(lost) |" in deferred_updates.accuracy(mine, others)


def test_the_page_says_what_the_results_do():
    text = deferred_updates.PATH.read_text()
    counted, results = (json.loads(path.read_text()) for path in
                        (deferred_updates.COUNTED, deferred_updates.ENERGY))  # fmt: skip
    regimes = map(Findings.read, (deferred_updates.ACCURACY, deferred_updates.OTHER_ACCURACY))
    found = deferred_updates.document(text, counted, results, *regimes)
    assert text == found, "run python -m adagp.evaluation.report.deferred_updates"
