"""Figures and table of ``docs/pipelines.md``, of the lists that ``host/pipelines`` makes.

``python -m adagp.evaluation.report.pipelines`` draws the images and writes the page's sections; the second one is of
``results/pipelines.json``.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ...host.pipelines.checking import check
from ...host.pipelines.comparing import Row, compare
from ...host.pipelines.counts import Mix, fitted_mix
from ...host.pipelines.drawing import COLOURS, label
from ...host.pipelines.schedules import SCHEDULES, build
from ...host.pipelines.steps import What
from ...host.pipelines.timing import Timeline, timed
from ...spec.phases import BP, GP, PHASE_TITLES
from ..checkout import require_checkout
from .pipeline_runs import measured
from .reference import table

__all__ = ["PATH", "document", "main", "plot_schedules", "section"]

MODULE = "adagp.evaluation.report.pipelines"
PATH = Path(__file__).parents[2] / "docs" / "pipelines.md"
"""The committed copy."""
BEGIN, END = f"<!-- Written by python -m {MODULE}: -->", "<!-- until here -->"
MEASURED = f"<!-- Written by python -m {MODULE} from results/pipelines.json: -->"
DEVICES = MICRO_BATCHES = 4
"""Sizes of the paper's figures, and so of the page's."""
IMAGES = {
    "pipelines_flushed": (("gpipe", "1f1b", "chimera"), (BP, GP, BP)),
    "pipelines_split": (("interleaved", "zb-h1"), (BP, GP, BP)),
    "pipelines_stale": (("stale-1f1b", "stale-paired"), (BP, BP, GP, BP)),
}
"""Schedules and batches by image."""
_NAMES = {
    What.FORWARD: "forward", What.BACKWARD: "backward", What.BACKWARD_INPUT: "gradients of inputs",
    What.BACKWARD_WEIGHT: "gradients of weights",
}  # fmt: skip


def plot_schedules(timelines: Sequence[Timeline], path: Path) -> None:
    """Draw timelines below each other, a row for each device, to ``path`` as PNG or SVG by its suffix."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    longest = float(max(timeline.end for timeline in timelines))
    heights = [0.9 + 0.3 * timeline.schedule.devices for timeline in timelines]
    size = (min(60, max(6, 1.6 + 0.27 * longest)), 0.5 + sum(heights))
    figure, axes = pyplot.subplots(
        len(timelines), 1, figsize=size, height_ratios=heights, squeeze=False, layout="constrained"
    )
    seen: set[tuple[What, int]] = set()
    for axis, timeline in zip(axes[:, 0], timelines, strict=True):
        seen |= _draw(axis, timeline)
        axis.set(xlim=(0, longest), xlabel="steps")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend = [
        Patch(facecolor=COLOURS[what][phase == GP], edgecolor="black", label=f"{_NAMES[what]}, {PHASE_TITLES[phase]}")
        for what in _NAMES for phase in (BP, GP) if (what, phase) in seen
    ]  # fmt: skip
    figure.legend(handles=legend, loc="outside upper center", ncols=len(legend), frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "adagp"}):  # the same bytes each time
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _draw(axis, timeline: Timeline) -> set[tuple[What, int]]:
    """Draw one timeline; returns kinds of steps with their phases."""
    schedule = timeline.schedule
    seen = set()
    for slot in timeline.slots:
        if slot.step is None or slot.end == slot.begin:
            continue
        seen.add((slot.what, slot.step.phase))
        begin, length = float(slot.begin), float(slot.end - slot.begin)
        colour = COLOURS[slot.what][slot.step.phase == GP]
        axis.barh(slot.device, length, left=begin, height=0.9, color=colour, edgecolor="black", linewidth=0.5)
        text = label(slot.step, timeline)[1:]
        axis.text(begin + length / 2, slot.device, text, ha="center", va="center", fontsize=7, clip_on=True)
    axis.set_yticks(range(schedule.devices), [f"device {device}" for device in range(schedule.devices)], fontsize=8)
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_title(f"{SCHEDULES[schedule.name].title}: {float(timeline.end):g} steps", fontsize=9, loc="left")
    return seen


def _cells(row: Row) -> tuple[str, ...]:
    held = ", ".join(f"{float(one):.4g}" for one in row.memory)
    missed = ", ".join(map(str, row.missed)) if any(row.missed) else "none"
    steps = " / ".join(f"{float(one):.4g}" for one in (row.bp, row.gp, row.gp_bp))
    printed = f"{paper.PIPELINE_SPEEDUP[row.name]:.3f}" if row.name in paper.PIPELINE_SPEEDUP else ""
    gains = (f"{float(one):.3f}" for one in (row.gain, row.gain_by_formula, row.gain_even))
    return row.title, steps, f"{100 * float(row.idle):.1f} %", held, missed, *gains, printed


def section() -> str:
    """The section: a table for four devices and micro-batches, and what the paper's speed-ups imply."""
    mix = Mix(paper.EPOCHS, paper.WARMUP_EPOCHS, paper.PHASES)
    rows, _ = compare(DEVICES, MICRO_BATCHES, mix)
    registers, _ = compare(DEVICES + 1, MICRO_BATCHES, mix, names=("stale-registers",))
    titles = ("schedule", "BP / GP / GP, BP", "idle in BP", "held, by device", "missed, by stage",
              "ADA-GP, counted", "by formula", "as many GP as BP", "the paper")  # fmt: skip
    cells = [_cells(row) for row in rows]
    cells += [(f"{one[0]}, {DEVICES + 1} devices", *one[1:]) for one in map(_cells, registers)]
    gpipe, chimera = (
        (paper.PIPELINE_STEPS[name][0], paper.PIPELINE_SPEEDUP[name]) for name in ("gpipe", "chimera")
    )  # fmt: skip
    share, longer = fitted_mix(gpipe, chimera, MICRO_BATCHES)
    words = (
        f"The paper's two means, {gpipe[1]:.3f} over GPipe and {chimera[1]:.3f} over Chimera, fix two unknowns: a share"
        f" of GP batches of {share:.3f}, and steps that are {100 * longer:.1f} % longer with ADA-GP. Its phases of"
        f" {paper.EPOCHS} epochs, with {paper.WARMUP_EPOCHS} of warm-up and runs of four, three and two GP batches"
        f" afterwards, have a share of {float(mix.share):.3f}. One GP batch for each BP batch from the first on,"
        " without warm-up, would have 0.5; the paper's maxima,"
        f" {' and '.join(f'{paper.PIPELINE_MOST_SPEEDUP[name]:g}' for name in ('gpipe', 'chimera'))}, are of exactly"
        " that. It doesn't say so."
    )
    return f"{table(titles, cells)}\n\n{fill(words, 120)}"


def document(text: str) -> str:
    """The page with its sections anew."""
    for begin, made in ((BEGIN, section()), (MEASURED, measured())):
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{made}\n\n{END}{rest.split(END, 1)[1]}"
    return text


def main() -> None:
    """Draw the images and write the sections."""
    for name, (schedules, batches) in IMAGES.items():
        timelines = [timed(build(one, DEVICES, MICRO_BATCHES, batches)) for one in schedules]
        for timeline in timelines:
            check(timeline)
        plot_schedules(timelines, PATH.parent / "images" / f"{name}.png")
    PATH.write_text(document(PATH.read_text()))


if __name__ == "__main__":
    require_checkout()
    main()
