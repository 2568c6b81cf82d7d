"""``docs/paper-figures.md``: the paper's figures 16 to 19 and 21 of our data, and its averages.

``python -m adagp.evaluation.report.paper_figures`` draws the images and writes the page's section.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from textwrap import fill

from ...spec.phases import PHASE_TITLES
from ..benches.figures_16_to_21 import ERRORS, LAYERS, TIME
from ..checkout import require_checkout
from ..instruments.paper_batches import DATA
from .paper_plots import Layers, plot_energy, plot_layers, plot_speedups
from .paper_sentences import Part, Rows, assumptions, beyond_limits, legend, zeros
from .paper_tables import FLOWS, cnns, energies, flows, layers, networks, others, savings, speedups
from .predictor_stops import told

__all__ = ["IMAGES", "PATH", "Part", "document", "main", "parts_of", "section"]

MODULE = "adagp.evaluation.report.paper_figures"
ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "paper-figures.md"
"""The committed copy."""
RESULT, STOPS = (ROOT / "results" / f"{name}.json" for name in ("figures_16_to_21", "predictor_stops"))
IMAGES = ("paper_layers", "paper_speedups", "paper_energy")
BEGIN, END = f"<!-- Written by python -m {MODULE}: -->", "<!-- until here -->"


def parts_of(results: Mapping) -> dict[Part, Rows]:
    """Rows by network of each part of the results, those of a data set after each other."""
    found = {}
    for name, part in results["details"].items():
        if name not in (ERRORS, LAYERS, TIME):
            data, dataflow, batch = name.rsplit("_", 2)
            found[data, dataflow, int(batch)] = part["details"]
    orders = [*DATA], [*FLOWS]
    return dict(sorted(found.items(), key=lambda item: (*map(list.index, orders, item[0][:2]), item[0][2])))


FIGURE_16, OTHERS = "Figure 16: VGG13 by layer", "Tables 2 and 3: the Transformer and YOLO-v3"
SECTIONS: dict[str, tuple[str, tuple[Callable[[Mapping[Part, Rows]], str], ...]]] = {
    FIGURE_16: ("paper_layers", ()),
    "Figures 17 to 19: speed-ups": ("paper_speedups", (speedups, beyond_limits, zeros)),
    OTHERS: ("", (others,)),
    "Figure 21: energy": ("paper_energy", (savings,)),
    "What the paper must have assumed": ("", (assumptions,)),
    "Each network": ("", (networks,)),
    "Each network by dataflow": ("", (flows,)),
    "Energy of an epoch": ("", (energies,)),
}
"""Titles with their image and what is written."""


def _magnitude(error: float) -> str:
    return f"{100 * error:.4f} %" if error else "nothing"


def short_ways(results: Mapping) -> str:
    """A sentence on the error of leaving out what repeats, if it was measured."""
    if ERRORS not in results["details"]:
        return ""
    names = " and ".join(name.replace(", ", " with ", 1) for name in results["details"][ERRORS]["details"])
    return fill(
        f"Leaving out what repeats was measured for MAX on {names}. It changes the cycles of a batch by"
        f" {_magnitude(results['figures']['known_error_worst'])} at most, and bytes of a kind by"
        f" {_magnitude(results['figures']['known_bytes_error_worst'])}. It wasn't measured for other dataflows, nor on"
        " ImageNet.", 120,
    )  # fmt: skip


def _layers(results: Mapping) -> tuple[str, Layers]:
    """The network of figure 16 and its cycles by layer."""
    ((name, found),) = results["details"][LAYERS]["details"].items()
    return name, found


def duration(results: Mapping) -> str:
    """A sentence on the time that rows take, if it was taken."""
    if TIME not in results["details"]:
        return ""
    n, average, most, every, minutes = (
        results["figures"][name]
        for name in ("rows_timed", "cpu_seconds_mean", "cpu_seconds_most", "rows_all", "minutes_on_two_cores")
    )
    return fill(
        f"A row takes {average:.0f} seconds of a core in the mean of {n} whose time was taken, {most:.0f} at most. All"
        f" {every} rows take about {minutes} minutes on two cores, by the mean of each data set's rows.", 120,
    )  # fmt: skip


def plots(results: Mapping) -> dict[str, Callable[[Path], None]]:
    """Functions that draw the images that there are results for."""
    parts = parts_of(results)
    shown_cnns = [(data, flow, rows) for (data, flow, n), rows in cnns(parts).items() if n == 32]
    shown = (("imagenet", 32), ("cifar10", 32), ("cifar10", 128))
    drawn = [(data, n, rows) for (data, flow, n), rows in parts.items() if flow == "free" and (data, n) in shown]
    found: dict[str, Callable[[Path], None]] = {}
    if shown_cnns:
        found["paper_speedups"] = partial(plot_speedups, shown_cnns)
    if LAYERS in results["details"]:
        found["paper_layers"] = partial(plot_layers, _layers(results)[1])
    if drawn:
        found["paper_energy"] = partial(plot_energy, drawn)
    return found


def section(results: Mapping, texts: Mapping[str, str]) -> str:
    """The section: plots and tables that there are rows for, and before each what ``texts`` say by title."""
    parts, blocks = parts_of(results), []
    drawn = plots(results)
    for title, (image, written) in SECTIONS.items():
        plot = [f"![{title}](images/{image}.png)"] if image in drawn else []
        tables = [each(parts) for each in written]
        if title == FIGURE_16 and plot:
            name, found = _layers(results)
            tables = [f"Thousand cycles of a batch, {name}:", layers(found)]
        if there := [*plot, *filter(None, tables)]:
            blocks += [f"## {title}", *filter(None, [fill(texts.get(title, ""), 120)]), *there]
    return "\n\n".join(filter(None, [duration(results), short_ways(results), legend(parts), *blocks]))


def document(text: str, results: Mapping) -> str:
    """The page with its section anew."""
    before, rest = text.split(BEGIN)
    stops = json.loads(STOPS.read_text())["figures"] if STOPS.exists() else {}
    texts = {**TEXTS, OTHERS: TEXTS[OTHERS] + told(stops)}
    return f"{before}{BEGIN}\n\n{section(results, texts)}\n\n{END}{rest.split(END, 1)[1]}"


TEXTS = {
    "Figures 17 to 19: speed-ups": (
        "Over the baseline of the same dataflow, in 90 epochs, at batch 32 if no other is named. `free` lets each"
        " product keep the operand that makes it faster; the paper has no such figure. `rs`, row-stationary, is"
        " [a model without RTL](estimator.md#row-stationary-a-model-without-rtl) that has the traffic of `free`. A row"
        " is the mean over networks that all dataflows have. Rows with `all there are` have more: don't compare those"
        " between dataflows. The paper's columns are filled where all its networks are estimated."
    ),
    FIGURE_16: (
        "The paper draws VGG13's layers on the baseline and on Efficient, whose batches are of three kinds: "
        f"{', '.join(PHASE_TITLES[:3])}. It prints no numbers; there a layer on Efficient costs the sum of the model's"
        " and of the predictor's work. Here a command on the main array costs the cycles from the end of the one before"
        " it to its own, so waits count for the command that waited. A layer's row holds its commands, and those of the"
        " layers without products after it. The predictor's commands count where they run on that array: not on MAX."
        " What updates, Adam and the exponents take after the last command is the end of the batch. In brackets:"
        " percent of the baseline's."
    ),
    "Each network": (
        "Dataflow `free`, batch 32 if no other is named. Utilisation is the array's products over PEs times cycles:"
        " first without those with a border's zeros, then with them."
    ),
    "Each network by dataflow": "The speed-up of MAX and its limit, over the baseline of the same dataflow.",
    OTHERS: (
        "Our Transformer can't be compared with the paper's, which counts all operators: the host computes many of"
        " ours, whose time isn't counted. MAX is slower than LOW there. Its GP batch was longer when the rows were"
        " made; with today's order of commands, below, it is shorter. Over 90 epochs MAX stays slower, because its"
        " batches of BP are longer than LOW's too. Why those are longer isn't known."
    ),
    "Figure 21: energy": (
        "Energy of DRAM traffic. The ideal is a GP batch that moves the bytes of a forward pass alone: no update, no"
        " prediction. The paper's saving is the mean over its own networks."
    ),
    "Energy of an epoch": "Baseline → MAX, where a mean batch of the 90 epochs counts; fetching programs isn't shown.",
}
"""Sentences before the plots and tables."""


def main() -> None:
    """Draw the images and write the section, if there are results."""
    if not RESULT.exists():
        return
    results = json.loads(RESULT.read_text())
    for image, draw in plots(results).items():
        draw(PATH.parent / "images" / f"{image}.png")
    PATH.write_text(document(PATH.read_text(), results))


if __name__ == "__main__":
    require_checkout()
    main()
