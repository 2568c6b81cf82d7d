"""The comparison: how learning rates are chosen, and what methods are compared with at equal cost."""

import json
import math
from dataclasses import replace

import pytest
from adagp.experiments import workers
from adagp.experiments.comparison import TUNING_SEED, Comparison, Tuned, tuned
from adagp.experiments.experiment_folder import ExperimentFolder
from adagp.experiments.pareto import compare, line
from adagp.host.training.run_folder import RunError
from small_experiments import TINY_REGIME


def ended(comparison, validation):
    """Runs of the tuning end, round by round, with what ``validation`` says of each; returns the rounds."""
    outcomes = comparison.folder.path / "outcomes"
    outcomes.mkdir()
    rounds = 0
    while left := [run for run in comparison.tuning() if not comparison.folder.has(run)]:
        rounds += 1
        for run in left:
            outcome = {"run": {"lr": run.lr, "method": run.method}, "validation": validation(run)}
            (outcomes / f"{run.identity}.json").write_text(json.dumps(outcome))
    return rounds


def test_tuning_takes_the_best_mean():
    def outcome(lr, validation):
        return {"run": {"lr": lr}, "validation": validation}

    outcomes = [outcome(0.1, 90), outcome(0.1, None), outcome(0.05, 60), outcome(0.05, 62), outcome(0.01, 50)]
    assert tuned(outcomes) == Tuned(0.05, 61, False, 3)
    assert tuned(outcomes[:4]) == Tuned(0.05, 61, True, 2)
    assert tuned([outcome(0.1, None), outcome(0.05, 0.0)]) == Tuned(0.05, 0, True, 2)


@pytest.mark.parametrize("best, tried", [
    (0.05, [0.015, 0.05, 0.15]), (0.15, [0.015, 0.05, 0.15, 0.45]), (0.005, [0.0017, 0.005, 0.015, 0.05, 0.15]),
    (2.0, [0.015, 0.05, 0.15, 0.45, 1.4, 4.2]), (0.0, [0.00019, 0.00057, 0.0017, 0.005, 0.015, 0.05, 0.15]),
])  # fmt: skip
def test_learning_rates_go_beyond_the_first_ones_until_the_best_is_inside(tmp_path, best, tried):
    """The best is the nearest to ``best``; a method that always diverges is tried with lower ones."""
    comparison = Comparison(
        replace(TINY_REGIME, lrs=(0.05, 0.015, 0.15)), None, ExperimentFolder(tmp_path), methods=("bp-1",)
    )
    rounds = ended(comparison, lambda run: -abs(math.log(run.lr / best)) if best else None)
    assert sorted({run.lr for run in comparison.tuning()}) == tried and rounds == len(tried) - 1
    chosen = comparison.chosen()["bp-1"]
    assert chosen.tried == len(tried) and chosen.at_edge is (best in (0.0, 4.2))


def test_the_two_best_learning_rates_are_looked_at_once_more(tmp_path):
    """Two more seeds turn the order of the first two around; the third rate, now above both, is out."""
    comparison = Comparison(TINY_REGIME, None, ExperimentFolder(tmp_path), methods=("bp-1",))
    said = {0.02: (60, 60, 0, 0), 0.06: (90, 50, 40, 40), 0.18: (65, 64, 50, 50)}
    ended(comparison, lambda run: said[run.lr][run.seed - TUNING_SEED])
    seeds = {lr: [run.seed - TUNING_SEED for run in comparison.tuning() if run.lr == lr] for lr in said}
    assert seeds == {0.02: [0, 1], 0.06: [0, 1, 2, 3], 0.18: [0, 1, 2, 3]}
    assert comparison.chosen()["bp-1"] == Tuned(0.18, (65 + 64 + 50 + 50) / 4, True, 3)
    assert comparison.tuning_seeds == (1000, 1001, 1002, 1003)


def test_comparison_at_equal_cost():
    """Plain training has 50 % at half of the cost and 60 % at all of it, 2 more with seed 1; mean has 57 % and 60 %."""
    accuracy = {"bp-1": {0: 60, 1: 62}, "bp-0.5": {0: 50, 1: 52}, "mean": {0: 57, 1: 60}, "free": {0: 1, 1: math.nan}}
    points = {p.method: p for p in compare(accuracy, {"bp-1": 1, "bp-0.5": 0.5, "mean": 0.75, "free": 0.1},
                                           ("bp-1", "bp-0.5"))}  # fmt: skip
    assert points["mean"].above == pytest.approx(2.5) and points["mean"].error == pytest.approx(0.5)
    assert points["mean"].accuracy == 58.5 and points["mean"].n == 2
    assert points["bp-1"].above == 0 and points["free"].above is None and points["free"].accuracy == 0.5
    accuracy["bp-1"][1] = math.nan  # diverged: 0; what costs less is better, and the line
    [point] = compare({**accuracy}, {"bp-1": 1, "bp-0.5": 0.5, "mean": 0.75, "free": 0.1}, ("bp-1", "bp-0.5"))[2:3]
    assert point.above == pytest.approx((57 - 50 + 60 - 52) / 2)
    accuracy["bp-0.5"] = {0: math.nan, 1: 55}  # now bp-1 is better again, though it diverged too
    [point] = compare({**accuracy}, {"bp-1": 1, "bp-0.5": 0.5, "mean": 0.75, "free": 0.1}, ("bp-1", "bp-0.5"))[2:3]
    assert point.above == pytest.approx((57 - 30 + 60 - 27.5) / 2)
    assert line([1, 0.5], [60, 50], 0.4) is None


def test_a_comparison_runs_once_and_chooses_by_validation(tmp_path, monkeypatch):
    seen = []
    folder = ExperimentFolder(tmp_path)
    comparison = Comparison(TINY_REGIME, None, folder, methods=("bp-0.4", "mean-1:1"), seeds=(0, 1))
    real = workers.execute
    monkeypatch.setattr(workers, "execute", lambda run, *rest, **more: (seen.append(run), real(run, *rest, **more))[1])

    def finish(runs):
        comparison.finish(runs, 1, lambda *_: None)

    finish(comparison.tuning())
    assert len(seen) == 12 and {run.seed for run in seen} == {1000, 1001}
    assert not any(folder.read(run)["validations"] for run in seen)
    while not all(map(folder.has, comparison.tuning())):
        finish(comparison.tuning())
    tried = len(seen)
    finish(comparison.reported())
    assert len(seen) == tried + 4 and {run.seed for run in seen[tried:]} == {0, 1}
    finish(comparison.reported())
    assert len(seen) == tried + 4
    best = comparison.chosen()["bp-0.4"]
    means = {
        lr: sum(folder.read(comparison.run("bp-0.4", s, lr))["validation"] for s in comparison.tuning_seeds) / 4
        for lr in {run.lr for run in comparison.tuning() if run.method == "bp-0.4" and run.seed == 1003}
    }
    assert len(means) == 2 and best.validation == max(means.values()) and means[best.lr] == best.validation
    other = replace(comparison, regime=replace(TINY_REGIME, images=128))
    next((tmp_path / "outcomes").iterdir()).unlink()
    with pytest.raises(RunError, match="with images = 256, not 128"):
        other.finish(other.tuning(), 1, lambda *_: None)
