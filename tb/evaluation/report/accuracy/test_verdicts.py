"""Verdicts on results, by regimes whose answers are known."""

import json

import pytest
from adagp.evaluation.report.accuracy import page
from adagp.evaluation.report.accuracy.findings import Findings
from adagp.evaluation.report.accuracy.verdicts import in_a_sentence, pairs, verdicts
from digests import AA
from written_accuracy import written


def test_differences_are_taken_seed_by_seed(tmp_path):
    one = written(tmp_path)["one"]
    gap = one.against("ada-gp", "skip")
    assert gap.mean == pytest.approx((-1 - 1.5 - 0.5) / 3) and gap.error == pytest.approx(0.5 / 3**0.5)
    assert gap.n == 3 and not gap.lost
    assert one.against("ada-gp", "zero-1:1") is None and one.above("bp-1") is None
    assert one.gp_share("ada-gp") == 0.25 and one.gp_share("bp-1") == 0


def test_answers_follow_from_the_numbers(tmp_path):
    told = verdicts(written(tmp_path))
    lines = told.splitlines()
    assert "Less in one, two. In points: one -4.83 ± 0.72" in lines[0]
    assert "below" not in lines[1] and "Undecided in one, two" in lines[1]
    assert lines[2].endswith("(`ada-gp-raw`)** Not run.")
    assert "No, they do worse in" not in lines[3] and "Undecided in one, two. In points: one -1.00 ± 1.24" in lines[3]
    assert "two of three" in lines[4] and "Undecided in one, two. In points: one +0.83 ± 0.72" in lines[4]
    assert "one of three" in lines[5] and "Not run" in lines[5]
    assert "Undecided in one, two" in lines[6]
    assert "Not run" in lines[7]
    assert lines[8].endswith("In two regimes or more: `ada-gp-1:1` (one, two); `skip` (one, two). In one: none.")
    assert "6 of 10 are above and 2 below; were there no differences, chance would make 0.2 of each. Above:" in lines[9]
    for method, there in (("random-1:1", False), ("ada-gp", False), ("skip", True), ("skip-2:1", True)):
        assert (f"`{method}` (one, two)" in lines[9]) is there  # the first is below
    worth = " ".join(in_a_sentence(written(tmp_path)).split())
    assert "is clearly below plain training of no higher cost in 0, clearly above it in 0, and undecided in 2." in worth
    alone = verdicts(written(tmp_path, ("one",)))
    assert "In two regimes or more: none. In one: `" in alone.splitlines()[8] and "`skip` (one)." in alone
    assert "Yes in one. In points: one +0.83 ± 0.72" in alone.splitlines()[4]  # a family of one
    assert "| `skip` | +5.30 ± 0.86 * |" in pairs(written(tmp_path, ("one",)))


@pytest.mark.parametrize("above, told", [(-9.0, "cost in 2, clearly above it in 0, and undecided in 0"),
                                         (9.0, "cost in 0, clearly above it in 2, and undecided in 0")])  # fmt: skip
def test_whether_it_is_worth_it_is_told_first(above, told, tmp_path):
    results = written(tmp_path)
    for name, found in results.items():
        found.figures[f"above_{name}_ada-gp"] = above
    assert told in " ".join(in_a_sentence(results).split())


def test_a_method_s_losses_are_told_beside_what_it_wins(tmp_path):
    results = written(tmp_path, ("one", "two", "three"))
    results["three"].figures["above_three_skip"] = -5.3
    told = verdicts(results).splitlines()
    assert "`skip` (one, two; below it in three)" in told[8] and "`skip` (one, two; below it in three)" in told[9]


def test_smaller_images_alone_are_compared_over_two_regimes(tmp_path):
    """Seed by seed; of the other regime plain training alone is needed."""
    results = written(tmp_path, ("cifar32-steep", "cifar16-steep"))
    whole, small = results["cifar32-steep"].details["methods"], results["cifar16-steep"].details["methods"]
    whole["coarse"] = {**whole["skip"], "runs": [{"seed": n, "test": test} for n, test in enumerate((80, 82, 84))]}
    small["bp-1"] = {**small["bp-1"], "runs": [{"seed": n, "test": test} for n, test in enumerate((70, 71, 72))]}
    told = verdicts(results).splitlines()[-1]
    assert told.endswith("(`coarse` in cifar32-steep, `bp-1` in cifar16-steep)** Yes. In points: +11.00 ± 2.48.")
    assert "cifar16" not in verdicts(written(tmp_path)).splitlines()[-1]


def test_what_becomes_of_the_paper_s_predictor_is_told(tmp_path):
    found = written(tmp_path, ("one",))
    found["one"].details["methods"]["ada-gp-raw"] = {
        "runs": [{"seed": s, "test": t} for s, t in enumerate((80, 9, None))]
    }
    found["one"].figures["accuracy_one_ada-gp-raw"] = 29.67
    assert "(`ada-gp-raw`)** one 29.7 % (2 of 3 runs astray)." in verdicts({"one": found["one"]}).splitlines()[2]


@pytest.mark.parametrize("method, tests, told", [
    ("skip", (86, 40, 88), " (1 lost)"), ("skip", (86, None, 3), " (2 lost)"), ("skip", (86, 46, 88), ""),
    ("skip", (None, None, None), " (3 lost)"), ("bp-0.4", (80, 81, 30), ""),
])  # fmt: skip
def test_seeds_that_went_astray_are_told(method, tests, told, tmp_path):
    """Those with less than half of what plain training has; nothing that they have a part in is clear."""
    written(tmp_path, ("one",))
    path = tmp_path / "accuracy.json"
    results = json.loads(path.read_text())
    for run, test in zip(results["details"]["one"]["details"]["methods"][method]["runs"], tests, strict=True):
        run["test"] = test
    path.write_text(json.dumps(results))
    text, by_regime = page.document(tmp_path, AA), Findings.read(path)
    assert f"| `skip` | 87.17 ± 1.00{told} | 25 | 0.450 |" in text
    lost = bool(told) or method == "bp-0.4"
    assert by_regime["one"].above("skip").lost is lost
    assert ("| `skip` | +5.30 ± 0.86 (lost) |" in text) is lost and ("| `skip` | +5.30 ± 0.86 * |" in text) is not lost
    assert ("undecided, as runs went astray, in one" in text.lower()) is lost
