"""Accuracy against cost, a panel for each regime."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path

from .accuracy_findings import Findings
from .methods import METHODS

__all__ = ["draw"]

COLUMNS = 2


def draw(by_regime: Mapping[str, Findings], path: Path) -> None:
    """Means with standard deviations over seeds; a line through plain training, a mark for each other method."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    n_rows = -(-len(by_regime) // COLUMNS)
    figure, axes = pyplot.subplots(n_rows, COLUMNS, figsize=(13, 4.6 * n_rows), layout="constrained", squeeze=False)
    looks = dict(zip((name for name, method in METHODS.items() if method.entries), _looks(), strict=False))
    for axis, (name, found) in zip(axes.flat, by_regime.items(), strict=False):
        methods = found.details["methods"]
        plain = sorted((m for m in methods if not METHODS[m].entries), key=lambda m: found.of("cost", m))
        axis.errorbar(
            [found.of("cost", m) for m in plain], [found.of("accuracy", m) for m in plain],
            [found.of("sd", m) for m in plain], fmt="k.--", capsize=3, lw=1, label="plain training",
        )  # fmt: skip
        for method in (m for m in methods if METHODS[m].entries):
            colour, marker = looks[method]
            axis.errorbar(found.of("cost", method), found.of("accuracy", method), found.of("sd", method),
                          fmt=marker, color=colour, capsize=3, label=method)  # fmt: skip
        axis.set(title=name, xlabel="MACs over plain training's for all epochs", ylabel="test accuracy, %",
                 xlim=(0, None), ylim=_limits(found, plain, methods))  # fmt: skip
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(by_regime) :]:
        axis.set_axis_off()
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def _limits(found: Findings, plain: Iterable[str], methods: Iterable[str]) -> tuple[float, float]:
    """Around plain training and ADA-GP, and up to the best of all, but no more than 100 %; the rest may be outside."""
    least = min(found.of("accuracy", m) - found.of("sd", m) for m in {*plain, "ada-gp"} & {*methods})
    most = min(100.0, max(found.of("accuracy", m) + found.of("sd", m) for m in methods))
    return least - 0.4 * (most - least), most + 0.05 * (most - least)


def _looks():
    """Colours and markers, so many that methods differ in one of them."""
    from matplotlib import colormaps

    return zip(cycle(map(colormaps["tab10"], range(10))), cycle("osD^v<>pPX*h8"), strict=False)
