"""Plots of a run (loss, accuracy, where the cycles went; what its units did) and of results, for the documents.

``python -m adagp.evaluation.report.plots`` draws those of the documents, of the results that there are.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..checkout import require_checkout

if TYPE_CHECKING:
    from ...host.training.timeline import Slice

__all__ = ["IMAGES", "plot_pe_formats", "plot_run", "plot_scaling", "plot_timeline"]

IMAGES = Path("docs/images")
"""Folder of the documents' plots, in a checkout."""

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

    figure, (losses, accuracies, cycles) = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    for part, style in (("train", "--"), ("test", "-")):
        known = [row for row in log if row[f"{part}_loss"] is not None]
        places = [row["epoch"] for row in known]
        losses.plot(places, [row[f"{part}_loss"] for row in known], style, marker=".", label=part)
        accuracies.plot(places, [100 * row[f"{part}_accuracy"] for row in known], style, marker=".", label=part)
    losses.set(title="loss", xlabel="epoch", ylim=(0, None))
    accuracies.set(title="accuracy", xlabel="epoch", ylabel="%")
    for axis in (losses, accuracies):
        axis.legend()
        axis.grid(alpha=0.3)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    last = log[-1]
    total = last.get("cycles", 0) * last.get("devices", 1)
    shares = {label: last.get(name, 0) / max(1, total) for name, label in _STALLS.items()}
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


_PALE = {"backward data": 0.65, "backward weight": 0.35}
"""Share of a phase's colour that a backward command has; all others have the whole."""
_SHADES = {
    **dict.fromkeys(("backward_data", "maxpool_backward", "avgpool_backward"), _PALE["backward data"]),
    "backward_weight": _PALE["backward weight"],
}


def plot_timeline(found: list["Slice"], title: str, path: Path) -> None:
    """Draw slices, a row for each unit, coloured by phase (backward paler), wide ones named after their layers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    from ...host.training.timeline import TRACKS
    from ...spec.phases import PHASE_TITLES

    rows = {unit: -n for n, unit in enumerate(unit for unit in TRACKS if any(s.unit == unit for s in found))}
    begin, end = min(s.begin for s in found), max(s.end for s in found)
    figure, axis = pyplot.subplots(figsize=(16, 1.6 + 0.55 * len(rows)), layout="constrained")
    bars: dict[tuple, list[tuple[int, int]]] = {}
    for s in found:
        bars.setdefault((s.unit, s.phase, _SHADES.get(s.opcode, 1.0), s.dry), []).append((s.begin, s.cycles))
        text = s.name if s.unit == "batch" else s.layer
        if s.cycles > 0.005 * len(text) * (end - begin):
            axis.text((s.begin + s.end) / 2, rows[s.unit], text, ha="center", va="center", fontsize=7, clip_on=True)
    for (unit, phase, shade, dry), spans in bars.items():
        axis.broken_barh(
            spans, (rows[unit] - 0.4, 0.8), facecolor=(f"C{PHASE_TITLES.index(phase)}", shade), edgecolor="white",
            linewidth=0.4, hatch="////" * dry,
        )  # fmt: skip
    axis.set(xlabel="cycles", xlim=(begin, end), ylim=(-len(rows) + 0.5, 0.5), title=title)
    axis.set_yticks(list(rows.values()), list(rows))
    seen = {s.phase for s in found}
    legend = [Patch(color=f"C{n}", label=title) for n, title in enumerate(PHASE_TITLES) if title in seen]
    legend += [Patch(color=("grey", shade), label=direction) for direction, shade in _PALE.items()]
    if any(s.dry for s in found):
        legend.append(Patch(facecolor="none", edgecolor="grey", hatch="////", label="dry, to calibrate"))
    axis.legend(handles=legend, loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=8)
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


_TARGETS = {"ecp5": "ECP5", "ecp5_narrow": "ECP5, 4-input LUTs only", "xilinx": "7 series"}
_PER_PE = {
    "lut": "LUTs per PE", "ff": "registers per PE", "dsp": "multipliers (DSP) per PE", "fmax_median_mhz": "Fmax in MHz",
}  # fmt: skip


def plot_pe_formats(results: dict, path: Path) -> None:
    """Draw what a PE of each format takes by ``results/pe_formats.json``: a panel per resource, a bar per target."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows, found = results["details"]["rows"], results["figures"]
    formats = list(dict.fromkeys(row["format"] for row in rows))
    figure, axes = pyplot.subplots(1, len(_PER_PE), figsize=(3.6 * len(_PER_PE), 3.6), layout="constrained")
    for axis, (what, title) in zip(axes, _PER_PE.items(), strict=True):
        for n, target in enumerate(_TARGETS):
            known = [(i, found[f"{what}_{target}_{form}"]) for i, form in enumerate(formats)
                     if f"{what}_{target}_{form}" in found]  # fmt: skip
            if known:
                bars = axis.bar([i + 0.28 * (n - 1) for i, _ in known], [v for _, v in known], 0.26, color=f"C{n}")
                axis.bar_label(bars, fmt="%.4g", fontsize=7)
        axis.set(title=title, ylim=(0, None))
        axis.set_xticks(range(len(formats)), formats)
        axis.grid(alpha=0.3, axis="y")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=f"C{n}") for n in range(len(_TARGETS))]
    figure.legend(handles, _TARGETS.values(), loc="outside lower center", ncols=len(_TARGETS), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main() -> None:
    """Entry point of ``nox -s docs``."""
    from ..instruments.results import FOLDER
    from .comparison import Results
    from .synthesis_plot import PLOT, plot_synthesis

    plot_synthesis(Results(FOLDER, {}, {}), IMAGES / PLOT)
    for name, plot in (("scaling", plot_scaling), ("pe_formats", plot_pe_formats)):
        if (path := FOLDER / f"{name}.json").exists():
            plot(json.loads(path.read_text()), IMAGES / f"{name}.png")


if __name__ == "__main__":
    require_checkout()
    main()
