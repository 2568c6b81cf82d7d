"""Plots, as numbers."""

import pytest
from adagp.evaluation.report.accuracy.plot import draw
from adagp.experiments.pareto import Point
from adagp.experiments.plots import _against_cost
from adagp.experiments.results import MethodResult
from written_accuracy import written


@pytest.fixture
def drawn(monkeypatch):
    """Figures as they are closed."""
    figures = []
    monkeypatch.setattr("matplotlib.pyplot.close", figures.append)
    return figures


def line(axis):
    return [tuple(map(float, point)) for point in axis.lines[0].get_xydata()]


def test_the_line_is_of_the_best_plain_training(drawn, tmp_path):
    """The line leaves out points that cost more and are no better, in an experiment's plot and in all regimes'."""
    accuracies = {"bp-1": (1.0, 90.0), "bp-0.7": (0.7, 93.0), "bp-0.4": (0.4, 92.0), "skip": (0.5, 95.0)}
    found = [MethodResult(Point(name, accuracy, 1.0, 3, cost, None, None), {}, {}) for name, (cost, accuracy)
             in accuracies.items()]  # fmt: skip
    _against_cost(found, "accuracy", "plot", tmp_path / "cost.png")
    assert line(drawn[0].axes[0]) == [(40, 92), (70, 93), (100, 93)]
    results = written(tmp_path, ("one",))
    results["one"].figures["accuracy_one_bp-0.4"] = 95.0
    draw(results, tmp_path / "accuracy.png")
    assert line(drawn[1].axes[0]) == [(0.4, 95), (1, 95)]


def test_a_regime_of_plain_training_alone_has_no_panel(drawn, tmp_path):
    results = written(tmp_path, ("one", "two", "three"))
    methods = results["two"].details["methods"]
    results["two"].details["methods"] = {name: methods[name] for name in ("bp-1", "bp-0.4")}
    draw(results, tmp_path / "accuracy.png")
    assert [axis.get_title() for axis in drawn[0].axes] == ["one", "three"]
