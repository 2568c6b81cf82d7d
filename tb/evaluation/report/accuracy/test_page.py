"""``docs/accuracy.md``: what it makes of results, by a regime whose answers are known."""

import json
from dataclasses import asdict

import pytest
from adagp.algorithm.paper_numbers import ACCURACY
from adagp.evaluation.report import figures
from adagp.evaluation.report.accuracy import page, plot
from adagp.evaluation.report.accuracy.findings import Findings
from adagp.evaluation.report.accuracy.methods import legend
from adagp.evaluation.report.accuracy.plot import draw
from adagp.evaluation.report.accuracy.predictions import predictions
from adagp.evaluation.report.accuracy.times import times
from adagp.experiments.methods.methods import METHODS
from adagp.experiments.regimes import REGIMES
from digests import AA
from written_accuracy import TESTS, written


def test_the_document(tmp_path):
    written(tmp_path)
    text = page.document(tmp_path, AA)
    assert "| `skip` | 87.17 ± 1.00 | 25 | 0.450 | +5.30 ± 0.86 |  |  | 0.05 of 4 (edge) |" in text
    assert "| `ada-gp` | 86.17 ± 1.00 | 25 | 0.700 | +0.17 ± 0.73 | 0.660 | +1.50 ± 1.08 | 0.05 of 4 |" in text
    assert "| one | `ada-gp-1:1` | `0.weight` | 3 | 0.01 | 0.02 | 0.5 |  |" in text
    assert text.count("not run: `./adagp experiment") == 3 * len(ACCURACY) and "PyTorch\n" not in text
    sentences = " ".join(text.split())
    assert "learned from 40." in sentences and "accuracy by 1.51 points" in sentences
    assert "has 16 batches; a cost of 1 is 1,234.0·10⁹ MACs, with all batches counted as whole." in sentences


def test_times(tmp_path):
    seconds = dict.fromkeys(("ada_bp", "gp", "forward", "predictor", "update"), 0.25)
    found = {
        "figures": {"gp_over_bp_vgg13_cpu": 0.5, "overhead_vgg13_cpu": 0.125},
        "details": {"cpu": {"figures": [], "details": {
            "seconds": {"vgg13": {"bp": 0.5, **seconds}}, "batch": 64, "rounds": 15, "threads": 1,
        }}},
        "provenance": {"cpu": {
            "processor": "one", "command": "time it", "seed": 0, "commit": "1" * 40, "tools": {"torch": "2"},
        }},
    }  # fmt: skip

    def text():
        (tmp_path / "wall_time.json").write_text(json.dumps(found))
        return times(tmp_path, AA)

    assert times(tmp_path, AA) == ""
    assert "| vgg13 | 500.0 | 250.0 | 250.0 | 250.0 | 250.0 | 250.0 |\n" in text()
    assert "| vgg13 | 0.500 | 0.500 | 12.5 % |\n" in text()
    assert text().endswith(
        "\n\n`gp` takes less time than a BP batch of plain training; its overhead is 15 % at most. "
        "If it predicts half of all batches, training takes less time than plain training with as many batches."
    )
    detail = found["details"]["cpu"]["details"]
    detail["seconds"]["vgg13"]["bp"], found["figures"] = 0.125, {"gp_over_bp_vgg13_cpu": 2, "overhead_vgg13_cpu": 0.16}
    longer = "takes longer, with vgg13, than"
    assert text().endswith(
        f"\n\n`gp` {longer} a BP batch of plain training; its overhead is above 15 % with vgg13. "
        f"If it predicts half of all batches, training {longer} plain training with as many batches."
    )
    detail["seconds"]["vgg13"] |= {"gp_at_once": 0.0625, "predictor_at_once": 0.125}
    detail |= {"at_once": 5, "spread": {"vgg13": dict.fromkeys(detail["seconds"]["vgg13"], 0.031)}}
    found["figures"] |= {"gp_at_once_over_bp_vgg13_cpu": 0.5, "overhead_at_once_vgg13_cpu": 0.0625}
    assert "| 62.5 (3 %) | 125.0 (3 %) |\n" in text()
    assert "| vgg13 | 2.000 | 2.000 | 16.0 % | 0.500 | 1.250 | 6.2 % |\n" in text()
    assert "medians of 15 (interquartile ranges); at once: 5.\n" in text()
    assert text().endswith(
        "`gp_at_once` takes less time than a BP batch of plain training; its overhead is 15 % at most. "
        f"If it predicts half of all batches, training {longer} plain training with as many batches."
    )


def test_predictions_of_the_papers_schedule_are_shown_where_there_are_no_others(tmp_path):
    found = written(tmp_path)
    methods = found["two"].details["methods"]
    methods["ada-gp"]["quality"] = methods.pop("ada-gp-1:1")["quality"]
    text = predictions(found)
    assert "| one | `ada-gp-1:1` | `0.weight` | 3 |" in text and "| two | `ada-gp` | `0.weight` | 3 |" in text
    assert text.count("`0.weight`") == 2


def test_what_longer_learning_makes_of_predictions(tmp_path):
    written(tmp_path)
    runs = [[{"all": {"cosine": tenth / 10 + seed, "signs": 0.5}} for tenth in range(10)] for seed in (0, 1)]
    (tmp_path / "predictor.json").write_text(json.dumps({
        "figures": {}, "details": {"digits": {"details": {"batches": 1000, "tenths": {"held": runs}}}},
        "provenance": {"digits": {"command": "x", "commit": "1" * 40, "tools": {"torch": "2"}, "seed": [0, 1]}},
    }))  # fmt: skip
    text = page.document(tmp_path, AA)
    assert "learned from. digits, held: over all weights +0.600 in the second tenth, +1.400 in the last." in text
    assert "| digits, held | `all` | +0.500 | +0.600 | +0.900 | +1.400 | 0.500 |" in text


def test_seeds_of_learning_rates_are_told(tmp_path):
    found = written(tmp_path)["one"]
    assert "Learning rates were" not in page._settings(found)
    tuning = [{"lr": lr, "seed": seed, "validation": 50.0} for lr in (0.1, 0.2, 0.3) for seed in range(2)]
    found.details["methods"]["skip"]["tuning"] = tuning
    assert "Learning rates were tried with 2 seeds. Trained" in page._settings(found)
    tuning += [{"lr": 0.1, "seed": 2, "validation": 50.0}, {"lr": 0.1, "seed": 3, "validation": 50.0}]
    assert "were tried with 2 seeds, the two best with 4." in page._settings(found)


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
    monkeypatch.setattr(page, "RESULTS", path)
    with pytest.raises(SystemExit):
        page.main(["--check"])
    assert "digits-long (the regime has changed)" in capsys.readouterr().out


def test_the_committed_document_is_up_to_date():
    text = page.PATH.read_text()
    assert text == page.document(now=figures.named(text)), "run nox -s docs"


def test_the_plot(tmp_path):
    path = tmp_path / "images" / "accuracy.png"
    draw(written(tmp_path), path)
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_without_results_there_is_no_document(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "RESULTS", tmp_path / "accuracy.json")
    page.main([])
    assert capsys.readouterr().out == "no accuracy.json yet, so no docs/accuracy.md: run nox -s bench_accuracy\n"


def test_the_committed_regimes_are_those_that_there_are():
    by_regime = Findings.read(page.RESULTS)
    assert len(by_regime) > 0 and all(found.current for found in by_regime.values())


def test_a_regime_that_is_not_simulated_is_of_no_hardware(tmp_path):
    written(tmp_path, ("one",))
    path = tmp_path / "accuracy.json"
    results = json.loads(path.read_text())
    origin = results["provenance"]["one"]
    for name in ("hardware", "config", "clock_hz", "memory_part"):
        origin.pop(name, None)
    path.write_text(json.dumps(results))
    for library, age in (("aa", "Current"), ("bb", "Of an earlier library")):
        origin["code"] = {"library": library}
        path.write_text(json.dumps(results))
        text = page.document(tmp_path, AA)
        assert f"<summary>{age}, by <code>make it</code></summary>Commit <code>000000000000</code>; seed [0]; " in text
        assert "Preset <code>" not in text


def test_the_page_says_what_each_method_is(tmp_path):
    written(tmp_path)
    text = page.document(tmp_path, AA)
    assert "| `bp-0.4` |  | plain training for 40% of the epochs, rounded to whole ones |" in text
    assert "| `ada-gp-2:1` | 2:1 | predicted from each layer's output |" in text
    assert "| `skip` | 4:1, 3:1, 2:1, 1:1 | the batch is left out |" in text and "| `half-1:1` |" not in text
    every = legend(METHODS)
    assert all(f"| `{name}` |" in every for name in METHODS) and "true, of half of the batch's examples" in every
    assert "its targets not normalised |" in every and "only while most had a cosine of 0.1 at least |" in every


def test_methods_look_different_and_are_named_wherever_they_are(tmp_path, monkeypatch):
    """One regime lacks a method, the other has it: it is in the legend."""
    looks = plot._looks()
    assert set(looks) == {name for name, method in METHODS.items() if method.entries}
    assert len(set(looks.values())) == len(looks)
    found = written(tmp_path)
    del found["one"].details["methods"]["skip"]
    named = []
    monkeypatch.setattr("matplotlib.figure.Figure.legend", lambda self, handles, names, **_: named.extend(names))
    draw(found, tmp_path / "plot.png")
    assert named[0] == "plain training" and set(named[1:]) == {m for m in TESTS if METHODS[m].entries}
