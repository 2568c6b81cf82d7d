"""``docs/paper-figures.md``: the paper's figures 17 to 19, 21 and a part of 16 of our data, and its averages.

``python -m adagp.evaluation.report.paper_figures`` draws the images and writes the page's section.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ...host.compiler.dataflow import DATAFLOWS, MODELLED
from ...spec.config import VARIANTS
from ...spec.phases import PHASE_TITLES
from ..benches.figures_16_to_21 import ERRORS, TIME
from ..checkout import require_checkout
from ..instruments.paper_batches import DATA, KINDS, figures_of
from .paper_plots import TITLES, energy, plot_energy, plot_phases, plot_speedups
from .paper_sentences import Part, Rows, assumptions, complete, legend, marks, mean_of, percent, zeros
from .reference import table

__all__ = ["IMAGES", "PATH", "Part", "document", "main", "parts_of", "section"]

MODULE = "adagp.evaluation.report.paper_figures"
ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "paper-figures.md"
"""The committed copy."""
RESULT = ROOT / "results" / "figures_16_to_21.json"
IMAGES = ("paper_speedups", "paper_phases", "paper_energy")
BEGIN, END = f"<!-- Written by python -m {MODULE}: -->", "<!-- until here -->"
FIGURES = {"ws": "figure 17", "is": "figure 19", "rs": "figure 18; a model, no RTL"}
"""The paper's figures by dataflow."""
TARGETS = {("imagenet", 32): 0.33, ("cifar10", 128): 0.32, ("cifar100", 128): 0.32}
"""Savings that MAX is to reach in the mean of the networks, by data set and batch."""
UTILISATION = "baseline's array: useful utilisation / zeros counted"
UTILISATIONS = ("baseline_useful_utilisation", "baseline_utilisation")


def parts_of(results: Mapping) -> dict[Part, Rows]:
    """Rows by network of each part of the results."""
    found = {}
    for name, part in results["details"].items():
        if name in (ERRORS, TIME):
            continue
        data, dataflow, batch = name.rsplit("_", 2)
        found[data, dataflow, int(batch)] = part["details"]
    return found


def _most(rows: Rows, what: str) -> float:
    return max(figures_of(row)[what] for row in rows.values())


def _cnns(parts: Mapping[Part, Rows], batch: int) -> Iterable[tuple[str, str, Rows]]:
    """Data sets and dataflows of the CNNs, those of a dataflow after each other."""
    for dataflow in (*DATAFLOWS, *MODELLED):
        for data in ("cifar10", "cifar100", "imagenet"):
            if rows := parts.get((data, dataflow, batch)):
                yield data, dataflow, rows


def _table(head: Sequence[str], rows: Sequence[Sequence]) -> str:
    return table(head, rows) if rows else ""


def _utilisations(found: Mapping[str, float]) -> str:
    return " / ".join(percent(found[what]) for what in UTILISATIONS)


def speedups(parts: Mapping[Part, Rows]) -> str:
    """Means and maxima of the speed-ups over networks that all dataflows have, then over all of a dataflow.

    The paper's stand beside those of all its networks.
    """
    rows = []
    for data, dataflow, found in _cnns(parts, 32):
        others = [there for other, _, there in _cnns(parts, 32) if other == data]
        shared = {name: row for name, row in found.items() if all(name in there for there in others)}
        title = f"{dataflow} ({FIGURES[dataflow]})" if dataflow in FIGURES else dataflow
        for label, chosen in ((title, shared), (f"{title}, all there are", found if found != shared else {})):
            if not chosen:
                continue
            theirs = (of.get(dataflow, {}).get(data) for of in (paper.DATAFLOW_SPEEDUP, paper.DATAFLOW_MOST_SPEEDUP))
            printed = ", ".join(str(each) for each in theirs if each is not None) if complete(chosen, data) else ""
            rows.append((
                f"{label}{marks(chosen.values(), 32)}, {DATA[data].title}", len(chosen),
                *(f"{mean_of(chosen, f'speedup_{variant}'):.3f}" for variant in VARIANTS[1:-1]),
                f"{mean_of(chosen, 'speedup_max'):.3f}, {_most(chosen, 'speedup_max'):.3f}", printed,
                f"{mean_of(chosen, 'limit'):.3f}, {_most(chosen, 'limit'):.3f}",
                f"{mean_of(chosen, 'backward_to_forward'):.2f}",
                _utilisations({what: mean_of(chosen, what) for what in UTILISATIONS}),
            ))  # fmt: skip
    head = ("dataflow, data", "networks", *(TITLES[variant] for variant in VARIANTS[1:-1]), "MAX: mean, most",
            "paper, MAX: mean, most", "limit: mean, most", "backward / forward", UTILISATION)  # fmt: skip
    return _table(head, rows)


CYCLES = (("baseline", "bp"), ("max", "bp"), ("max", "warmup"), ("max", "gp"))
"""Designs and phases whose cycles stand beside each other."""


def networks(parts: Mapping[Part, Rows], dataflow: str = "free") -> str:
    """A row for each network and data set."""
    rows = []
    for (data, flow, batch), found in parts.items():
        if flow != dataflow or batch != 32:
            continue
        for name, row in found.items():
            one = figures_of(row)
            rows.append((
                f"{name}{marks([row], batch)}, {DATA[data].title}",
                *(f"{one[f'speedup_{variant}']:.3f}" for variant in VARIANTS[1:]), f"{one['limit']:.3f}",
                f"{one['backward_to_forward']:.2f}", _utilisations(one),
                " / ".join(f"{row['designs'][variant][phase]['cycles'] / 1e6:,.0f}" for variant, phase in CYCLES),
                f"{percent(one['dram_energy_saving_max'])} / {percent(one['ideal_saving'])}",
            ))  # fmt: skip
    head = ("network, data", *(TITLES[variant] for variant in VARIANTS[1:]), "limit", "backward / forward",
            UTILISATION, "M cycles: baseline / MAX's BP / warm-up / GP", "energy saved: MAX / ideal")  # fmt: skip
    return _table(head, rows)


def energies(parts: Mapping[Part, Rows]) -> str:
    """Joules of an epoch by kind of traffic, and what is saved."""
    rows = []
    for (data, dataflow, batch), found in parts.items():
        if dataflow != "free":
            continue
        for name, row in found.items():
            batches, one = DATA[data].examples / batch, figures_of(row)
            base, ours = energy(row, "baseline"), energy(row, "max")
            cells = [
                f"{base[kind] * batches * 1e-12:,.3g} → {ours[kind] * batches * 1e-12:,.3g}" for kind in KINDS[:-1]
            ]
            rows.append((
                f"{name}{marks([row], batch)}, {DATA[data].title}", batch, *cells,
                " / ".join(percent(one[f"dram_energy_saving_{variant}"]) for variant in VARIANTS[1:]),
                percent(one["ideal_saving"]),
            ))  # fmt: skip
    saved = " / ".join(TITLES[variant] for variant in VARIANTS[1:])
    head = ("network, data", "batch", *(f"{kind}, J" for kind in KINDS[:-1]), f"saved: {saved}", "ideal")
    return _table(head, rows)


def savings(parts: Mapping[Part, Rows]) -> str:
    """Means of the savings by data set and batch."""
    rows = []
    for (data, dataflow, batch), found in parts.items():
        if dataflow == "free":
            saved = [mean_of(found, f"dram_energy_saving_{variant}") for variant in VARIANTS[1:]]
            ideal, wanted = mean_of(found, "ideal_saving"), TARGETS.get((data, batch), 0.0)
            above = ", above the ideal" * (wanted > ideal)
            missed = f" (target {percent(wanted)}{above})" * (saved[-1] < wanted)
            rows.append((
                f"{DATA[data].title}{marks(found.values(), batch)}", batch, len(found), *map(percent, saved[:-1]),
                percent(saved[-1]) + missed,
                percent(ideal), percent(paper.DRAM_ENERGY_SAVING),
            ))  # fmt: skip
    return _table(("data", "batch", "networks", *(TITLES[variant] for variant in VARIANTS[1:]), "ideal", "paper"), rows)


def others(parts: Mapping[Part, Rows]) -> str:
    """The Transformer and YOLO-v3 beside tables 2 and 3."""
    rows = []
    for data in ("multi30k", "voc"):
        for name, row in parts.get((data, "free", 32), {}).items():
            one = figures_of(row)
            printed: Mapping[str, float] = paper.CYCLES[name]
            rows.append((
                name, *(f"{one[f'speedup_{variant}']:.3f}" for variant in VARIANTS[1:]), f"{one['limit']:.3f}",
                *(f"{printed['baseline'] / printed[v]:.3f}" if v in printed else "" for v in ("efficient", "max")),
                ", ".join(row["islands"]) or "none",
            ))  # fmt: skip
    head = ("network", *(TITLES[variant] for variant in VARIANTS[1:]), "limit", "paper, Efficient", "paper, MAX",
            "operators of the host")  # fmt: skip
    return _table(head, rows)


SECTIONS: dict[str, tuple[str, tuple[Callable[[Mapping[Part, Rows]], str], ...]]] = {
    "Figures 17 to 19: speed-ups": ("paper_speedups", (speedups, zeros)),
    "A part of figure 16: VGG13 by phase": ("paper_phases", ()),
    "Tables 2 and 3: the Transformer and YOLO-v3": ("", (others,)),
    "Figure 21: energy": ("paper_energy", (savings,)),
    "What the paper must have assumed": ("", (assumptions,)),
    "Each network": ("", (networks,)),
    "Energy of an epoch": ("", (energies,)),
}
"""Titles with their image and what is written."""


def short_ways(results: Mapping) -> str:
    """A paragraph on the errors of leaving out and extrapolating, if they were measured."""
    if ERRORS not in results["details"]:
        return ""
    names = ", ".join(results["details"][ERRORS]["details"])
    known, grown = (results["figures"][f"{name}_error_worst"] for name in ("known", "extrapolated"))
    return fill(
        f"Measured for MAX on {names} alone: leaving out what repeats changes the cycles of a batch by"
        f" {100 * known:.4f} % at most, and extrapolating it from a quarter and a half of it by {100 * grown:.2f} %, as"
        " an update fits beside the layers of a large batch alone. So times of extrapolated rows are rough. Bytes"
        " of extrapolated rows haven't been held against those of whole batches.", 120,
    )  # fmt: skip


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
        f" {every} rows take about {minutes} minutes on two cores, extrapolated by the mean of each data"
        " set's timed rows.", 120,
    )  # fmt: skip


def plots(parts: Mapping[Part, Rows]) -> dict[str, Callable[[Path], None]]:
    """Functions that draw the images that there are rows for."""
    cnns = list(_cnns(parts, 32))
    shown = (("imagenet", 32), ("cifar10", 32), ("cifar10", 128))
    energies = [(data, n, rows) for (data, flow, n), rows in parts.items() if flow == "free" and (data, n) in shown]
    found: dict[str, Callable[[Path], None]] = {}
    if cnns:
        found["paper_speedups"] = partial(plot_speedups, cnns)
    if row := parts.get(("cifar10", "free", 32), {}).get("vgg13"):
        found["paper_phases"] = partial(plot_phases, row)
    if energies:
        found["paper_energy"] = partial(plot_energy, energies)
    return found


def section(results: Mapping, texts: Mapping[str, str]) -> str:
    """The section: plots and tables that there are rows for, and before each what ``texts`` say by title."""
    parts, blocks = parts_of(results), []
    drawn = plots(parts)
    for title, (image, written) in SECTIONS.items():
        plot = [f"![{title}](images/{image}.png)"] if image in drawn else []
        if there := [*plot, *filter(None, (each(parts) for each in written))]:
            blocks += [f"## {title}", *filter(None, [texts.get(title, "")]), *there]
    return "\n\n".join(filter(None, [duration(results), short_ways(results), legend(parts), *blocks]))


def document(text: str, results: Mapping) -> str:
    """The page with its section anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{section(results, TEXTS)}\n\n{END}{rest.split(END, 1)[1]}"


TEXTS = {
    "Figures 17 to 19: speed-ups": (
        "Over the baseline of the same dataflow at batch 32, in 90 epochs. `free` lets each product keep the operand\n"
        "that makes it faster; the paper has no such figure. `rs`, row-stationary, is\n"
        "[a model without RTL](estimator.md#row-stationary-a-model-without-rtl) that has the traffic of `free`.\n"
        "Rows of a data set are over the networks that all dataflows there have; those with `all there are` aren't to\n"
        "be compared between dataflows. The paper's columns are filled where all its networks are estimated."
    ),
    "A part of figure 16: VGG13 by phase": (
        f"The paper has it by layer. Here are whole batches on CIFAR-10: {', '.join(PHASE_TITLES[:3])}."
    ),
    "Each network": (
        "Dataflow `free`, batch 32. Utilisation is the array's products over PEs times cycles: first without those\n"
        "with a border's zeros, then with them."
    ),
    "Figure 21: energy": (
        "Energy of DRAM traffic. The ideal is a GP batch that moves the bytes of a forward pass alone: no update, no\n"
        "prediction. The paper's saving is the mean over its own networks."
    ),
    "Energy of an epoch": "Baseline → MAX, where a mean batch of the 90 epochs counts; fetching programs isn't shown.",
}
"""Sentences before the plots and tables."""


def main() -> None:
    """Draw the images and write the section, if there are results."""
    if not RESULT.exists():
        return
    results = json.loads(RESULT.read_text())
    for image, draw in plots(parts_of(results)).items():
        draw(PATH.parent / "images" / f"{image}.png")
    PATH.write_text(document(PATH.read_text(), results))


if __name__ == "__main__":
    require_checkout()
    main()
