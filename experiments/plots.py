"""Plots of an experiment: accuracy over epochs and against cost, quality of predictions by layer."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import numpy as np

from .methods.methods import ALL_METHODS
from .pareto import best
from .results import MethodResult

__all__ = ["plot_experiment"]

_QUALITY = {
    "mape_mse": (("mape", "MAPE (equation 1)", "log"), ("mse", "MSE", "log")),
    "cosine": (("cosine", "cosine of predicted and true gradient", "linear"),),
    "signs_norms": (("sign_agreement", "share of equal signs", "linear"),
                    ("norm_ratio", "norm, predicted over true", "log")),
}  # fmt: skip
"""By file: measure, title and scale of each panel."""
_NAMED = 16
"""Layers that a legend has room for."""


def _axes(panels: int = 1, width: float = 7):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(width * panels, 4.6), layout="constrained", squeeze=False)
    for axis in axes[0]:
        axis.grid(alpha=0.3)
    return figure, axes[0]


def _save(figure, path: Path) -> Path:
    from matplotlib import pyplot

    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], float)


def _whole_epochs(axis):
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("epoch")


def _over_epochs(outcomes, score_name, title, path):
    """Plots the validation part's scores, means over seeds."""
    figure, (axis,) = _axes()
    styles = cycle(("-", "--", ":"))
    style = next(styles)
    by_method: dict[str, list[np.ndarray]] = {}
    for outcome in outcomes:
        by_method.setdefault(outcome["run"]["method"], []).append(_numbers(outcome["validations"]))
    for number, (method, curves) in enumerate(by_method.items()):
        if number and number % 10 == 0:  # as many colours as there are
            style = next(styles)
        shortest = min(map(len, curves))
        mean = np.mean([curve[:shortest] for curve in curves], 0)
        axis.plot(np.arange(1, shortest + 1), mean, style, marker=".", label=method)
    axis.set(title=title, ylabel=f"validation {score_name}, %")
    _whole_epochs(axis)
    axis.legend(fontsize=8)
    return _save(figure, path)


def _against_cost(found: Sequence[MethodResult], score_name, title, path):
    """Plots the test part's scores with standard deviations over seeds, and a line through plain training."""
    figure, (axis,) = _axes()
    plain = {one.point.method: one.point for one in found if ALL_METHODS[one.point.method].plain}
    accuracy = {name: point.accuracy for name, point in plain.items()}
    line = best([*plain], {name: point.cost for name, point in plain.items()}, accuracy)
    axis.plot([100 * cost for cost, _ in line], [accuracy[name] for _, name in line], "k--", lw=1,
              label="best plain training")  # fmt: skip
    markers = cycle("osD^v<>pPX*")
    for one, marker in zip(found, markers, strict=False):
        point = one.point
        error = None if np.isnan(point.sd) else point.sd
        axis.errorbar(100 * point.cost, point.accuracy, error, fmt=marker, capsize=3, label=point.method)
    axis.set(title=title, xlabel="MACs, % of plain training's", ylabel=f"test {score_name}, %", xlim=(0, None))
    axis.legend(fontsize=8)
    return _save(figure, path)


def _quality(outcome: dict, name: str, path: Path):
    """Plots the quality of one run, a line for each layer, from dark (first) to bright (last)."""
    from matplotlib import colormaps

    panels = _QUALITY[name]
    figure, axes = _axes(len(panels))
    layers: dict[str, list[dict]] = {}
    for row in outcome["quality"]:
        layers.setdefault(row["layer"], []).append(row)
    for axis, (measure, title, scale) in zip(axes, panels, strict=True):
        for place, (layer, rows) in enumerate(layers.items()):
            colour = colormaps["viridis"](place / max(1, len(layers) - 1))
            epochs = [row["epoch"] + 1 for row in rows]
            axis.plot(epochs, _numbers([row[measure] for row in rows]), ".-", color=colour, label=layer)
        axis.set(title=title, yscale=scale)
        _whole_epochs(axis)
    if len(layers) <= _NAMED:
        axes[-1].legend(fontsize=7)
    run = outcome["run"]
    figure.suptitle(f"{run['model']}, {run['method']}, seed {run['seed']}: by layer, first is dark")
    return _save(figure, path)


def plot_experiment(
    outcomes: Sequence[dict], found: Sequence[MethodResult], score_name: str, title: str, folder: Path
) -> list[Path]:
    """Draw all that there is something to draw of as PNG; quality is that of ada-gp's first seed, or of a method's
    like it. Returns the files."""
    made = [
        _over_epochs(outcomes, score_name, title, folder / "accuracy.png"),
        _against_cost(found, score_name, title, folder / "cost.png"),
    ]
    predicted = [o for o in outcomes if o["quality"] and ALL_METHODS[o["run"]["method"]].source == "predicted"]
    if predicted:
        shown = next((o for o in predicted if o["run"]["method"] == "ada-gp"), predicted[0])
        made += [_quality(shown, name, folder / f"{name}.png") for name in _QUALITY]
    return made
