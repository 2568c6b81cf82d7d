"""Accuracy against cost, a panel for each regime."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from ....experiments.methods.ideas import IDEAS
from ....experiments.methods.methods import METHODS
from ....experiments.pareto import best
from .findings import Findings

__all__ = ["draw"]

COLUMNS = 2
MARKERS = "osD^v<>pPX*h8"
FAMILIES = {
    "tab:blue": ("predicted",), "tab:red": ("random", "zero", "last", "mean"), "tab:orange": ("skip",),
    "tab:purple": ("dni",), "tab:green": IDEAS,
}  # fmt: skip
"""Sources of gradients in GP batches, by colour."""


def draw(by_regime: Mapping[str, Findings], path: Path) -> None:
    """Means with standard deviations over seeds; a line of the best plain training, a mark for each other method.

    Without regimes that have none.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = {
        name: found for name, found in by_regime.items() if any(METHODS[m].entries for m in found.details["methods"])
    }
    n_rows = -(-len(drawn) // COLUMNS)
    figure, axes = pyplot.subplots(n_rows, COLUMNS, figsize=(13, 4.6 * n_rows), layout="constrained", squeeze=False)
    looks, shown = _looks(), {}
    for axis, (name, found) in zip(axes.flat, drawn.items(), strict=False):
        methods = found.details["methods"]
        plain = [m for m in methods if not METHODS[m].entries]
        cost, accuracy, sd = ({m: found.of(what, m) for m in plain} for what in ("cost", "accuracy", "sd"))
        line = best(plain, cost, accuracy)
        axis.plot([at for at, _ in line], [accuracy[m] for _, m in line], "k--", lw=1)
        shown["plain training"] = axis.errorbar([*cost.values()], [*accuracy.values()], [*sd.values()], fmt="k.",
                                                capsize=3)  # fmt: skip
        for method in (m for m in methods if METHODS[m].entries):
            colour, marker = looks[method]
            shown[method] = axis.errorbar(
                found.of("cost", method), found.of("accuracy", method), found.of("sd", method), fmt=marker,
                color=colour, capsize=3,
            )  # fmt: skip
        axis.set(title=name, xlabel="MACs over plain training's for all epochs", ylabel="test accuracy, %",
                 xlim=(0, None), ylim=_limits(found, plain, methods))  # fmt: skip
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    names = [name for name in ("plain training", *looks) if name in shown]
    figure.legend([shown[name] for name in names], names, loc="outside lower center", ncols=6, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def _limits(found: Findings, plain: Iterable[str], methods: Iterable[str]) -> tuple[float, float]:
    """Around plain training and ADA-GP, and up to the best of all, but no more than 100 %; the rest may be outside."""
    least = min(found.of("accuracy", m) - found.of("sd", m) for m in {*plain, "ada-gp"} & {*methods})
    most = min(100.0, max(found.of("accuracy", m) + found.of("sd", m) for m in methods))
    return least - 0.4 * (most - least), most + 0.05 * (most - least)


def _looks() -> dict[str, tuple[str, str]]:
    """Colour and marker of each method with GP batches; those of a colour have the same kind of gradients."""
    looks: dict[str, tuple[str, str]] = {}
    for colour, sources in FAMILIES.items():
        members = [name for name, method in METHODS.items() if method.entries and method.source in sources]
        looks |= {name: (colour, marker) for name, marker in zip(members, MARKERS, strict=False)}
    return looks
