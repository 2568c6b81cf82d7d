"""Plot of the four designs synthesised, for ``docs/implementation.md``: the logic of each by block, and its clocks."""

from collections.abc import Mapping
from pathlib import Path

from .comparison import Results
from .equal_area import MEASURED

__all__ = ["OTHERS", "PLOT", "drawn", "plot_synthesis", "shares"]

PLOT = "implementation.png"
"""The plot's name among the documents' images."""

UNITS = {
    "lut": ("thousand LUTs", 1e3), "cell_area": ("square millimetres of cells", 1e6),
}  # fmt: skip
"""Units in which logic is drawn, by the resource's name, and how many of the results' make one."""
SHOWN = ("core", "update", "control", "predictor", "predictor_memory")
"""Blocks with a colour of their own, in the order of the stack."""
OTHERS = "elsewhere"


def shares(blocks: Mapping[str, Mapping[str, int]], resource: str) -> dict[str, int]:
    """A resource by outermost block of ``SHOWN``, and of all ``OTHERS``; together they are the whole design's."""
    found = {block: blocks[block][resource] for block in SHOWN if block in blocks}
    return {**found, OTHERS: blocks[""][resource] - sum(found.values())}


def drawn(_results: Results) -> str:
    """The section of ``docs/implementation.md`` that shows it."""
    return f"""## At a glance

![Logic of the designs by block, and their clocks](images/{PLOT})

`python -m adagp.evaluation.report.plots` draws this. A bar is a whole design, coloured by outermost block: `core` has
the array, `update` the optimiser, `control` commands and exponents, `predictor` MAX's second core, `predictor_memory`
the memory between. Bars leave out block RAMs and macros of memories, and FPGAs' flip-flops and multipliers. A dot is a
seed, and a cross at 0 MHz a seed without a route. The line is the median, which counts such a seed as 0. The dashed
line is the target. The sections below give the origin and age of each result."""


def plot_synthesis(results: Results, path: Path) -> None:
    """Draw a panel for each of ``MEASURED`` that has results, and one of the designs routed on ECP5.

    A bar is a design, coloured by block; a dot is a seed, a line their median, a cross at 0 one without a route.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    origins = {name: measured["provenance"] for name in MEASURED if (measured := results.read(name))}
    if not origins:
        return
    found = {name: results.designs(name) for name in origins}
    placed = {variant: design for variant, design in found.get("ecp5", {}).items() if "fmax_mhz" in design}
    panels = len(found) + bool(placed)
    figure, axes = pyplot.subplots(1, panels, figsize=(3.7 * panels, 4.2), squeeze=False, layout="constrained")
    colours = {block: f"C{n}" for n, block in enumerate((*SHOWN, OTHERS))}
    for axis, (name, designs) in zip(axes[0], found.items(), strict=False):
        title, resource, _ = MEASURED[name]
        unit, scale = UNITS[resource]
        for at, design in enumerate(designs.values()):
            bottom = 0.0
            for block, number in shares(design["blocks"], resource).items():
                axis.bar(at, number / scale, 0.7, bottom, color=colours[block])
                bottom += number / scale
            axis.text(at, bottom, f"{bottom:.1f}", ha="center", va="bottom", fontsize=8)
        axis.set(title=f"{title}, preset {origins[name]['config']}", ylabel=unit)
        axis.set_xticks(range(len(designs)), designs)
    if placed:
        _clocks(axes[0][-1], placed, origins["ecp5"]["clock_hz"] / 1e6)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in colours.values()]
    figure.legend(handles, colours, loc="outside lower center", ncols=len(colours), frameon=False)
    for axis in axes[0]:
        axis.grid(alpha=0.3, axis="y")
        axis.set_axisbelow(True)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _clocks(axis, placed, target_mhz):
    for at, design in enumerate(placed.values()):
        speeds, lost = list(design["fmax_mhz"].values()), len(design.get("unrouted", ()))
        axis.plot([at] * len(speeds), speeds, "o", color="C0", alpha=0.6)
        if lost:  # without clipping, a line of no points would have an endless extent
            axis.plot([at] * lost, [0] * lost, "x", color="C3", clip_on=False)
        axis.plot([at - 0.25, at + 0.25], [design["fmax_median_mhz"]] * 2, color="black")
    axis.axhline(target_mhz, color="grey", linestyle="--", linewidth=0.8)
    axis.set(title="ECP5, routed", ylabel="MHz: seeds, median, target", ylim=(0, None))
    axis.set_xticks(range(len(placed)), placed)
