"""Plots of the paper's figures from our estimates: speed-ups, cycles by phase, energy by kind of traffic."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...algorithm import paper_numbers as paper
from ...host.compiler.dataflow import MODELLED
from ...spec.config import VARIANTS
from ...spec.phases import PHASE_NAMES, PHASE_TITLES
from ..instruments.paper_batches import DATA, KINDS, figures_of, picojoules
from ..instruments.variants import shares

__all__ = ["TITLES", "Layers", "energy", "layer_names", "plot_energy", "plot_layers", "plot_speedups"]

TITLES = {"baseline": "baseline", "low": "LOW", "efficient": "Efficient", "max": "MAX"}
"""Designs as the paper names them."""

Rows = Mapping[str, Mapping]
Layers = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Cycles by design, phase and layer."""


def layer_names(found: Layers) -> dict[str, str]:
    """Layers as the results and as the page name them, without the kinds of their modules."""
    return {name: name.rpartition(".")[0] or name for name in found["baseline"]["bp"]}


def _panels(count: int, height: float):
    """A figure of panels below each other."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(count, 1, figsize=(11, height * count), squeeze=False, layout="constrained")


def _saved(figure, path: Path) -> None:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _named(axis, names: Sequence[str]) -> None:
    axis.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=8)
    axis.grid(alpha=0.3, axis="y")
    axis.spines[["top", "right"]].set_visible(False)


def plot_speedups(found: Sequence[tuple[str, str, Rows]], path: Path) -> None:
    """Draw the speed-ups of networks, a panel for each data set and dataflow, with limits and the paper's means."""
    figure, axes = _panels(len(found), 2.5)
    for axis, (data, dataflow, rows) in zip(axes[:, 0], found, strict=True):
        each = [figures_of(row) for row in rows.values()]
        for n, variant in enumerate(VARIANTS[1:]):
            places = [i + 0.27 * (n - 1) for i in range(len(each))]
            axis.bar(places, [one[f"speedup_{variant}"] for one in each], 0.25, color=f"C{n}", label=TITLES[variant])
        axis.plot([one["limit"] for one in each], "_", color="black", markersize=26, label="limit")
        if printed := paper.DATAFLOW_SPEEDUP.get(dataflow, {}).get(data):
            axis.axhline(
                printed, color="C3", linestyle="--", linewidth=1, label="the paper's mean of MAX over its networks"
            )
        title = f"{DATA[data].title}, dataflow {dataflow}{', a model' * (dataflow in MODELLED)}"
        axis.set(title=title, ylim=(1, 1.6), ylabel="speed-up")
        axis.title.set_fontsize(9)
        _named(axis, [f"{name}{'*' * bool(row['islands'])}" for name, row in rows.items()])
    handles = {
        label: handle for axis in axes[:, 0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=5, frameon=False, fontsize=8)
    _saved(figure, path)


def plot_layers(found: Layers, path: Path) -> None:
    """Draw cycles by layer: a BP batch of the baseline, and Efficient's batches by phase, as in the paper."""
    figure, axes = _panels(1, 3.4)
    axis, names = axes[0, 0], layer_names(found)
    bars = [("BP, baseline", found["baseline"]["bp"])]
    bars += [(f"{PHASE_TITLES[PHASE_NAMES.index(phase)]}, Efficient", found["efficient"][phase]) for phase in shares()]
    for n, (label, cycles) in enumerate(bars):
        places = [i + 0.21 * (n - 1.5) for i in range(len(names))]
        axis.bar(places, [cycles[name] / 1e6 for name in names], 0.2, color=f"C{n}", label=label)
    axis.set(ylabel="million cycles a batch")
    axis.legend(frameon=False, fontsize=8)
    _named(axis, [*names.values()])
    _saved(figure, path)


def energy(row: Mapping, variant: str) -> dict[str, float]:
    """Picojoules of a mean batch by kind of traffic: the passes, updates, what is for the predictor, the program.

    The baseline's forward pass ends at the loss, and BP batches of all designs have the same; a GP batch has no other.
    """
    designs = row["designs"]

    def passes(batch: Mapping) -> float:
        return sum(picojoules(batch["bytes"][kind]) for kind in KINDS[:2])

    forward, found = passes(designs["baseline"]["forward"]), dict.fromkeys(KINDS, 0.0)
    for phase, part in (shares() if variant != "baseline" else {"bp": 1.0}).items():
        batch = designs[variant][phase]
        ahead = passes(batch) if phase == "gp" else forward
        more = {kind: picojoules(batch["bytes"][kind]) for kind in KINDS[2:]}
        for kind, value in (("forward", ahead), ("backward", passes(batch) - ahead), *more.items()):
            found[kind] += part * value
    return found


def plot_energy(found: Sequence[tuple[str, int, Rows]], path: Path) -> None:
    """Draw the energy of networks' DRAM traffic by kind over the baseline's: baseline, then MAX."""
    figure, axes = _panels(len(found), 2.6)
    for axis, (data, batch, rows) in zip(axes[:, 0], found, strict=True):
        for i, row in enumerate(rows.values()):
            base, ours = energy(row, "baseline"), energy(row, "max")
            whole = sum(base.values())
            below = [0.0, 0.0]
            for n, kind in enumerate(KINDS):
                heights = [base[kind] / whole, ours[kind] / whole]
                axis.bar([i - 0.2, i + 0.2], heights, 0.36, bottom=below, color=f"C{n}", label=kind if not i else "")
                below = [one + more for one, more in zip(below, heights, strict=True)]
        axis.axhline(1 - paper.DRAM_ENERGY_SAVING, color="black", linestyle="--", linewidth=1, label="the paper's mean")
        axis.set(title=f"{DATA[data].title}, batch {batch}: baseline and MAX", ylabel="DRAM energy")
        axis.title.set_fontsize(9)
        _named(axis, [f"{name}{'*' * bool(row['islands'])}" for name, row in rows.items()])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False, fontsize=8)
    _saved(figure, path)
