"""Accuracy against cost: each method beside the best plain training of no higher cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Point", "best", "compare", "line"]


@dataclass(frozen=True)
class Point:
    """A method: mean accuracy in percent over ``n`` seeds, its standard deviation, its cost over whole training's.

    ``above``: accuracy over the best plain training of no higher cost, ``error`` the standard error of that; both None
    for what costs less or more than any of it.
    """

    method: str
    accuracy: float
    sd: float
    n: int
    cost: float
    above: float | None
    error: float | None


def line(costs: Sequence[float], accuracies: Sequence[float], cost: float) -> float | None:
    """Between points of plain training, straight; None outside of them, and where there is none."""
    if not len(costs):
        return None
    order = np.argsort(costs)
    x, y = np.asarray(costs)[order], np.asarray(accuracies)[order]
    return float(np.interp(cost, x, y)) if x[0] <= cost <= x[-1] else None


def _spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def best(plain: Sequence[str], cost: Mapping[str, float], mean: Mapping[str, float]) -> list[tuple[float, str]]:
    """Points of the line: costs, and whose accuracy is had there.

    Plain training that is no better than some that costs less is left out: whoever can pay for it can have the other.
    Chosen by the means that are reported, so what luck there is in that is plain training's.
    """
    found: list[tuple[float, str]] = []
    highest = -math.inf
    for name in sorted(plain, key=lambda name: cost[name]):
        if mean[name] > highest:
            highest = mean[name]
            found.append((cost[name], name))
    return [*found, (max(cost[name] for name in plain), found[-1][1])] if found else []


def compare(
    accuracy: Mapping[str, Mapping[int, float]], cost: Mapping[str, float], plain: Sequence[str]
) -> list[Point]:  # fmt: skip
    """Points of accuracies by method and seed and of costs by method; the best of the methods ``plain`` are the line.

    Differences are taken seed by seed, as runs of a seed begin with the same weights and see the same order of images;
    so what a seed is worth counts for neither. A run that diverged has accuracy 0.
    """
    points = []
    counted = {
        method: {seed: value if math.isfinite(value) else 0.0 for seed, value in by_seed.items()}
        for method, by_seed in accuracy.items()
    }
    means = {method: float(np.mean(list(by_seed.values()))) for method, by_seed in counted.items()}
    known = best(plain, cost, means)
    for method, values in counted.items():
        differences = []
        for seed, value in values.items():
            at = line([x for x, _ in known], [counted[name][seed] for _, name in known], cost[method])
            if at is not None:
                differences.append(value - at)
        whole = len(differences) == len(values)
        points.append(Point(
            method, means[method], _spread(list(values.values())), len(values), cost[method],
            float(np.mean(differences)) if whole else None,
            _spread(differences) / math.sqrt(len(differences)) if whole else None,
        ))  # fmt: skip
    return points
