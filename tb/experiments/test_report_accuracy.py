"""``docs/accuracy.md``: what it makes of results, by a regime whose answers are known."""

import json
from dataclasses import asdict

import pytest
from adagp.experiments import accuracy_plot, report_accuracy
from adagp.experiments.accuracy_findings import Findings
from adagp.experiments.accuracy_methods import legend
from adagp.experiments.accuracy_plot import draw
from adagp.experiments.accuracy_verdicts import pairs, verdicts
from adagp.experiments.methods import METHODS
from adagp.experiments.regimes import REGIMES
from adagp.gen import figures
from adagp.golden.paper import ACCURACY

TESTS = {"bp-1": (90, 91, 92), "bp-0.4": (80, 81, 82), "ada-gp": (85, 86, 87.5), "skip": (86, 87.5, 88),
         "ada-gp-1:1": (88, 89, 90), "random-1:1": (88, 90, 89),
         "ada-gp-2:1": (82, 83, 84), "skip-2:1": (81, 82, 83.5)}  # fmt: skip
COSTS = {"bp-1": 1.0, "bp-0.4": 0.4, "ada-gp": 0.7, "skip": 0.45, "ada-gp-1:1": 0.75, "random-1:1": 0.75,
         "ada-gp-2:1": 0.6, "skip-2:1": 0.5}  # fmt: skip
BATCHES = {method: {"warmup": 40, "bp": 20, "gp": 20 if "bp" not in method else 0} for method in TESTS}
ABOVE = {"ada-gp": (0.17, 0.17), "skip": (5.3, 0.2), "ada-gp-1:1": (2.8, 0.0), "random-1:1": (-2.8, 0.6),
         "skip-2:1": (0.5, 0.1)}  # fmt: skip


REGIME = {"model": "small-cnn", "data": "digits", "image_size": 8, "images": 1000, "epochs": 3, "batch_size": 64,
          "torch": "2", "preset": "ecp5", "device": "cpu"}  # fmt: skip
EXAMPLES = {"train": 1000, "validation": 144, "test": 360}


def written(folder, regimes=("one", "two")):
    """Results of regimes that are all alike."""
    results = {"figures": {}, "details": {}, "provenance": {}}
    for regime in regimes:
        figures = {}
        for method, tests in TESTS.items():
            figures |= {f"accuracy_{regime}_{method}": sum(tests) / 3, f"sd_{regime}_{method}": 1.0,
                        f"cost_{regime}_{method}": COSTS[method]}  # fmt: skip
            if method in ABOVE:
                figures |= dict(zip((f"above_{regime}_{method}", f"error_{regime}_{method}"), ABOVE[method],
                                    strict=True))  # fmt: skip
        quality = {"0.weight": {"mape": 3.0, "mse": 1e-5, "cosine": 0.01, "sign_agreement": 0.5, "norm_ratio": None,
                                "cosine_end": 0.02,
                                "zeros": 0.0}}  # fmt: skip
        methods = {
            method: {"chosen": {"lr": 0.05, "validation": 90.0, "at_edge": method == "skip", "tried": 4}, "tuning": [],
                     "runs": [{"seed": seed, "test": test, "batches": BATCHES[method],
                               "whole": 1234 * 10**9 if method == "bp-1" else 1}
                              for seed, test in enumerate(tests)],
                     "quality": quality if method == "ada-gp-1:1" else {}}
            for method, tests in TESTS.items()
        }  # fmt: skip
        details = {"regime": REGIME, "methods": methods, "examples": EXAMPLES,
                   "by_cycles": {"ada-gp": {"cost": 0.66, "above": 1.5, "error": 0.25}}}  # fmt: skip
        results["figures"] |= figures
        results["details"][regime] = {"figures": sorted(figures), "details": details}
        results["provenance"][regime] = {
            "commit": "0" * 40, "hardware": "none", "command": "make it", "config": "ecp5", "clock_hz": 100e6,
            "memory_part": "dram", "seed": [0], "tools": {"torch": "2"},
        }  # fmt: skip
    (folder / "accuracy.json").write_text(json.dumps(results))
    return Findings.read(folder / "accuracy.json")


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
    assert "`ada-gp-1:1` (one, two)" in lines[8] and "`skip` (one, two)" in lines[8] and "`ada-gp` (" not in lines[8]
    assert "random" not in lines[8] + lines[9]  # below
    assert "`skip-2:1`" not in lines[8] and "`skip-2:1` (one, two)" in lines[9] and "`ada-gp` (" not in lines[9]
    assert lines[9].endswith("Of 10 differences 6 are above and 2 below; chance makes 0.2 of each.")
    alone = verdicts(written(tmp_path, ("one",)))
    assert alone.splitlines()[8].endswith("** None.") and "** None. Of 5" in alone.splitlines()[9]  # one isn't two
    assert "Yes in one. In points: one +0.83 ± 0.72" in alone.splitlines()[4]  # a family of one
    assert "| `skip` | +5.30 ± 0.86 * |" in pairs(written(tmp_path, ("one",)))


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
    assert told.endswith("(`coarse` in cifar32-steep, `bp-1` in cifar16-steep)** In points: +11.00 ± 2.48.")
    assert "cifar16" not in verdicts(written(tmp_path)).splitlines()[-1]


def test_the_document(tmp_path):
    written(tmp_path)
    text = report_accuracy.document(tmp_path)
    assert "| `skip` | 87.17 ± 1.00 | 25 | 0.450 | +5.30 ± 0.86 |  |  | 0.05 of 4 (edge) |" in text
    assert "| `ada-gp` | 86.17 ± 1.00 | 25 | 0.700 | +0.17 ± 0.73 | 0.660 | +1.50 ± 1.08 | 0.05 of 4 |" in text
    assert "| one | `ada-gp-1:1` | `0.weight` | 3 | 0.01 | 0.02 | 0.5 |  |" in text
    assert text.count("not run: `./adagp experiment") == 3 * len(ACCURACY) and "PyTorch\n" not in text
    assert (
        "learned from 40." in text
        and "accuracy by 1.51 points" in text
        and "has 16\nbatches; a cost of 1 is 1,234.0·10⁹ MACs, all batches taken as whole." in text
    )
    seconds = dict.fromkeys(("bp", "ada_bp", "gp", "forward", "predictor", "update"), 0.25)
    (tmp_path / "wall_time.json").write_text(json.dumps({
        "figures": {"gp_over_bp_vgg13_cpu": 0.5, "overhead_vgg13_cpu": 0.125},
        "details": {"cpu": {"figures": [], "details": {"seconds": {"vgg13": seconds}, "batch": 64, "rounds": 15,
                                                       "threads": 1}}},
        "provenance": {"cpu": {"processor": "one", "command": "time it", "commit": "1" * 40,
                               "tools": {"torch": "2"}}},
    }))  # fmt: skip
    text = report_accuracy.document(tmp_path)
    assert "| vgg13 | 250.0 | 250.0 | 250.0 | 250.0 | 250.0 | 250.0 | 0.500 | 12.5 % |" in text
    assert "GP batches take less time than BP batches; the overhead is above 15 % with none." in text
    times = json.loads((tmp_path / "wall_time.json").read_text())
    times["figures"] = {"gp_over_bp_vgg13_cpu": 1.5, "overhead_vgg13_cpu": 0.16}
    (tmp_path / "wall_time.json").write_text(json.dumps(times))
    assert "longer than BP batches with vgg13; the overhead is above 15 % with vgg13." in report_accuracy.document(
        tmp_path
    )


def test_what_becomes_of_the_paper_s_predictor_is_told(tmp_path):
    found = written(tmp_path, ("one",))
    found["one"].details["methods"]["ada-gp-raw"] = {
        "runs": [{"seed": s, "test": t} for s, t in enumerate((80, 9, None))]
    }
    found["one"].figures["accuracy_one_ada-gp-raw"] = 29.67
    assert "(`ada-gp-raw`)** one 29.7 % (2 of 3 runs astray)." in verdicts({"one": found["one"]}).splitlines()[2]


def test_what_longer_learning_makes_of_predictions(tmp_path):
    written(tmp_path)
    runs = [[{"all": {"cosine": tenth / 10 + seed, "signs": 0.5}} for tenth in range(10)] for seed in (0, 1)]
    (tmp_path / "predictor.json").write_text(json.dumps({
        "figures": {}, "details": {"digits": {"details": {"batches": 1000, "tenths": {"held": runs}}}},
        "provenance": {"digits": {"command": "x", "commit": "1" * 40, "tools": {"torch": "2"}, "seed": [0, 1]}},
    }))  # fmt: skip
    text = report_accuracy.document(tmp_path)
    assert "learned from. digits, held: over all weights +0.600 in the second tenth, +1.400 in the last." in text
    assert "| digits, held | `all` | +0.500 | +0.600 | +0.900 | +1.400 | 0.500 |" in text


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
    text, by_regime = report_accuracy.document(tmp_path), Findings.read(path)
    assert f"| `skip` | 87.17 ± 1.00{told} | 25 | 0.450 |" in text
    lost = bool(told) or method == "bp-0.4"
    assert by_regime["one"].above("skip").lost is lost
    assert ("| `skip` | +5.30 ± 0.86 (lost) |" in text) is lost and ("| `skip` | +5.30 ± 0.86 * |" in text) is not lost
    assert ("undecided, as runs went astray, in one" in text.lower()) is lost


def test_seeds_of_learning_rates_are_told(tmp_path):
    found = written(tmp_path)["one"]
    assert "Learning rates were" not in report_accuracy._settings(found)
    tuning = [{"lr": lr, "seed": seed, "validation": 50.0} for lr in (0.1, 0.2, 0.3) for seed in range(2)]
    found.details["methods"]["skip"]["tuning"] = tuning
    assert "Learning rates were tried with 2 seeds. Trained" in report_accuracy._settings(found)
    tuning += [{"lr": 0.1, "seed": 2, "validation": 50.0}, {"lr": 0.1, "seed": 3, "validation": 50.0}]
    assert "were tried with 2 seeds, the two best with 4." in report_accuracy._settings(found)


def test_a_regime_that_has_changed_is_named(tmp_path, monkeypatch, capsys):
    path = tmp_path / "accuracy.json"
    [found] = written(tmp_path, ("digits-long",)).values()
    assert not found.current
    results = json.loads(path.read_text())
    regime = results["details"]["digits-long"]["details"]["regime"]
    regime |= json.loads(json.dumps(asdict(REGIMES["digits-long"])))
    path.write_text(json.dumps(results))
    assert Findings.read(path)["digits-long"].current
    regime["tuning"] = 1
    path.write_text(json.dumps(results))
    monkeypatch.setattr(report_accuracy, "RESULTS", path)
    with pytest.raises(SystemExit):
        report_accuracy.main(["--check"])
    assert "digits-long (the regime has changed)" in capsys.readouterr().out


def test_the_committed_document_is_up_to_date():
    text = report_accuracy.PATH.read_text()
    assert text == report_accuracy.document(hardware=figures.named(text)), "run nox -s docs"


def test_the_plot(tmp_path):
    path = tmp_path / "images" / "accuracy.png"
    draw(written(tmp_path), path)
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_without_results_there_is_no_document(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report_accuracy, "RESULTS", tmp_path / "accuracy.json")
    report_accuracy.main([])
    assert capsys.readouterr().out == "no accuracy.json yet, so no docs/accuracy.md: run nox -s bench_accuracy\n"


def test_the_committed_regimes_are_those_that_there_are():
    by_regime = Findings.read(report_accuracy.RESULTS)
    assert len(by_regime) > 0 and all(found.current for found in by_regime.values())


def test_a_regime_that_is_not_simulated_is_of_no_hardware(tmp_path):
    written(tmp_path, ("one",))
    path = tmp_path / "accuracy.json"
    results = json.loads(path.read_text())
    results["details"]["one"]["details"]["regime"]["preset"] = ""
    path.write_text(json.dumps(results))
    text = report_accuracy.document(tmp_path)
    assert "Not simulated. By `make it` at commit `000000000000`; seeds [0]." in text and "preset `ecp5`" not in text


def test_the_page_says_what_each_method_is(tmp_path):
    written(tmp_path)
    text = report_accuracy.document(tmp_path)
    assert "| `bp-0.4` |  | plain training for 40% of the epochs |" in text
    assert "| `ada-gp-2:1` | 2:1 | predicted from each layer's output |" in text
    assert "| `skip` | 4:1, 3:1, 2:1, 1:1 | the batch is left out |" in text and "| `half-1:1` |" not in text
    every = legend(METHODS)
    assert all(f"| `{name}` |" in every for name in METHODS) and "true, of half of the batch's examples" in every
    assert "its targets not normalised |" in every and "only while most had a cosine of 0.1 at least |" in every


def test_methods_look_different_and_are_named_wherever_they_are(tmp_path, monkeypatch):
    """One regime lacks a method, the other has it: it is in the legend."""
    looks = accuracy_plot._looks()
    assert set(looks) == {name for name, method in METHODS.items() if method.entries}
    assert len(set(looks.values())) == len(looks)
    found = written(tmp_path)
    del found["one"].details["methods"]["skip"]
    named = []
    monkeypatch.setattr("matplotlib.figure.Figure.legend", lambda self, handles, names, **_: named.extend(names))
    draw(found, tmp_path / "plot.png")
    assert named[0] == "plain training" and set(named[1:]) == {m for m in TESTS if METHODS[m].entries}
