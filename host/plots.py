"""Plots of a run (loss, accuracy, where the cycles went) and of results, for the documents.

``python -m adagp.host.plots`` draws those of the documents, of the results that there are.
"""

import json
from pathlib import Path

__all__ = ["IMAGES", "plot_run", "plot_scaling"]

IMAGES = Path("docs/images")
"""Where the documents' plots are, in a checkout."""

_STALLS = {
    "array_cycles": "array busy",
    "stall_a": "waiting for operand A",
    "stall_b": "waiting for operand B",
    "stall_load": "loading stationary operands",
    "stall_drain": "waiting for the drain",
    "stall_idle": "no GEMM to do",
}


def plot_run(log: list[dict], title: str, path: Path) -> None:
    """Draw a run's log (rows of the trainer) to ``path`` as PNG, PDF or SVG by its suffix."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    epochs = [row["epoch"] for row in log]
    figure, (losses, accuracies, cycles) = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    for part, style in (("train", "--"), ("test", "-")):
        losses.plot(epochs, [row[f"{part}_loss"] for row in log], style, marker=".", label=part)
        accuracies.plot(epochs, [100 * row[f"{part}_accuracy"] for row in log], style, marker=".", label=part)
    losses.set(title="loss", xlabel="epoch", ylim=(0, None))
    accuracies.set(title="accuracy", xlabel="epoch", ylabel="%")
    for axis in (losses, accuracies):
        axis.legend()
        axis.grid(alpha=0.3)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    last = log[-1]
    shares = {label: last.get(name, 0) / max(1, last.get("cycles", 0)) for name, label in _STALLS.items()}
    if last.get("cycles"):
        bars = cycles.barh(list(shares), [100 * share for share in shares.values()])
        cycles.bar_label(bars, fmt="%.1f %%", padding=3)
        cycles.invert_yaxis()
        cycles.set(title=f"where {last['cycles'] / 1e6:.1f} M cycles went", xlabel="% of cycles", xlim=(0, 100))
    else:
        cycles.set_axis_off()
        cycles.text(0.5, 0.5, "this device counts no cycles", ha="center")
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def plot_scaling(results: dict, path: Path) -> None:
    """Draw the points of ``results/scaling.json`` under their rooflines, a panel per memory port."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    points = results["details"]["points"]
    ports, sizes = sorted({p["port"] for p in points}), sorted({(p["pes"], p["rows"], p["cols"]) for p in points})
    kinds = list(dict.fromkeys((p["layer"], p["direction"]) for p in points))
    colours = {pes: f"C{i}" for i, (pes, *_) in enumerate(sizes)}
    markers = dict(zip(kinds, "osDv^<>pPX*", strict=False))
    figure, axes = pyplot.subplots(
        1, len(ports), figsize=(4.4 * len(ports), 4.6), sharey=True, squeeze=False, layout="constrained"
    )
    span = [min(p["intensity"] for p in points) / 3, max(p["intensity"] for p in points) * 2]
    for axis, port in zip(axes[0], ports, strict=True):
        for p in (p for p in points if p["port"] == port):
            colour = colours[p["pes"]]
            slope = p["pes"] / p["ridge"]
            roof = [(x, min(p["pes"], slope * x)) for x in sorted([*span, min(max(p["ridge"], span[0]), span[1])])]
            axis.plot(*zip(*roof, strict=True), color=colour, linewidth=0.8, zorder=1)
            axis.plot(
                p["intensity"], p["macs_per_cycle"], markers[p["layer"], p["direction"]], color=colour, zorder=2,
                markerfacecolor=colour if p["memory_bound_by_counters"] else "white",
            )  # fmt: skip
        axis.set(title=f"port of {port} bits", xlabel="MACs per byte moved", xscale="log", yscale="log", xlim=span)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("MACs per cycle")
    legend = [Line2D([], [], color=colours[pes], label=f"{rows}x{cols}") for pes, rows, cols in sizes]
    for (layer, direction), marker in markers.items():
        label = f"{layer}, {direction.replace('_', ' ')}"
        legend.append(Line2D([], [], color="grey", marker=marker, markerfacecolor="white", linestyle="", label=label))
    legend.append(Line2D([], [], color="grey", marker="o", linestyle="", label="filled: array waits"))
    figure.legend(handles=legend, loc="outside right center", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main() -> None:
    """Entry point of ``nox -s docs``."""
    from .results import FOLDER

    if (path := FOLDER / "scaling.json").exists():
        plot_scaling(json.loads(path.read_text()), IMAGES / "scaling.png")


if __name__ == "__main__":
    main()
