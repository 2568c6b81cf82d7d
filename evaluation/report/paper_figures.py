"""``docs/paper-figures.md``: the paper's figures 16 to 19 and 21 of our data, beside its averages and maxima.

``python -m adagp.evaluation.report.paper_figures`` draws the images and writes the page's section.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ...host.compiler.dataflow import DATAFLOWS
from ...spec.config import VARIANTS
from ...spec.phases import PHASE_TITLES
from ..benches.figures_16_to_21 import ERRORS
from ..checkout import require_checkout
from ..instruments.paper_batches import DATA, KINDS, figures_of
from .paper_plots import TITLES, energy, plot_energy, plot_phases, plot_speedups
from .paper_sentences import Part, Rows, assumptions, goals, mean_of, percent, zeros
from .reference import table

__all__ = ["IMAGES", "PATH", "Part", "document", "main", "parts_of", "section"]

MODULE = "adagp.evaluation.report.paper_figures"
ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "paper-figures.md"
"""The committed copy."""
RESULT = ROOT / "results" / "figures_16_to_21.json"
IMAGES = ("paper_speedups", "paper_phases", "paper_energy")
BEGIN, END = f"<!-- Written by python -m {MODULE}: -->", "<!-- until here -->"
FIGURES = {"free": "", "ws": "17", "is": "19"}
"""The paper's figures by dataflow."""


def parts_of(results: Mapping) -> dict[Part, Rows]:
    """Rows by network of each part of the results."""
    found = {}
    for name, part in results["details"].items():
        if name == ERRORS:
            continue
        data, dataflow, batch = name.rsplit("_", 2)
        found[data, dataflow, int(batch)] = part["details"]
    return found


def _most(rows: Rows, what: str) -> float:
    return max(figures_of(row)[what] for row in rows.values())


def _cnns(parts: Mapping[Part, Rows], batch: int) -> Iterable[tuple[str, str, Rows]]:
    """Data sets and dataflows of the CNNs, those of a dataflow after each other."""
    for dataflow in DATAFLOWS:
        for data in ("cifar10", "cifar100", "imagenet"):
            if rows := parts.get((data, dataflow, batch)):
                yield data, dataflow, rows


def speedups(parts: Mapping[Part, Rows]) -> str:
    """Means and maxima of the speed-ups beside the paper's."""
    rows = []
    for data, dataflow, found in _cnns(parts, 32):
        printed = paper.DATAFLOW_SPEEDUP.get(dataflow, {}).get(data, "")
        most = paper.DATAFLOW_MOST_SPEEDUP.get(dataflow, {}).get(data, "")
        rows.append((
            f"{dataflow}{f' (figure {FIGURES[dataflow]})' * bool(FIGURES[dataflow])}", DATA[data].title, len(found),
            *(f"{mean_of(found, f'speedup_{variant}'):.3f}" for variant in VARIANTS[1:]), printed,
            f"{_most(found, 'speedup_max'):.3f}", most, f"{mean_of(found, 'limit'):.3f}, {_most(found, 'limit'):.3f}",
            f"{mean_of(found, 'backward_to_forward'):.2f}", percent(mean_of(found, "baseline_utilisation")),
        ))  # fmt: skip
    head = ("dataflow", "data", "networks", *(TITLES[variant] for variant in VARIANTS[1:]), "paper, MAX", "most, MAX",
            "paper, most", "limit: mean, most", "backward / forward", "baseline's utilisation")  # fmt: skip
    return table(head, rows)


def networks(parts: Mapping[Part, Rows], dataflow: str = "free") -> str:
    """A row for each network and data set."""
    rows = []
    for (data, flow, batch), found in parts.items():
        if flow != dataflow or batch != 32:
            continue
        for name, row in found.items():
            one = figures_of(row)
            rows.append((
                f"{name}{'*' * bool(row['islands'])}{'†' * (row['of'] != [batch])}", DATA[data].title,
                *(f"{one[f'speedup_{variant}']:.3f}" for variant in VARIANTS[1:]), f"{one['limit']:.3f}",
                f"{one['backward_to_forward']:.2f}", percent(one["baseline_utilisation"]),
                *(f"{row['designs'][variant]['bp']['cycles'] / 1e6:,.0f}" for variant in ("baseline", "max")),
                *(f"{row['designs']['max'][phase]['cycles'] / 1e6:,.0f}" for phase in ("warmup", "gp")),
                percent(one["dram_energy_saving_max"]), percent(one["ideal_saving"]),
            ))  # fmt: skip
    head = ("network", "data", *(TITLES[variant] for variant in VARIANTS[1:]), "limit", "backward / forward",
            "baseline's utilisation", "M cycles: baseline", "MAX, BP", "MAX, warm-up", "MAX, GP", "energy saved, MAX",
            "ideal")  # fmt: skip
    return table(head, rows)


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
                name, DATA[data].title, f"{batch}{'†' * (row['of'] != [batch])}", *cells,
                *(percent(one[f"dram_energy_saving_{variant}"]) for variant in VARIANTS[1:]),
                percent(one["ideal_saving"]),
            ))  # fmt: skip
    head = ("network", "data", "batch", *(f"{kind}, J" for kind in KINDS[:-1]),
            *(f"{TITLES[variant]} saves" for variant in VARIANTS[1:]), "ideal")  # fmt: skip
    return table(head, rows)


def savings(parts: Mapping[Part, Rows]) -> str:
    """Means of the savings by data set and batch."""
    rows = []
    for (data, dataflow, batch), found in parts.items():
        if dataflow == "free":
            rows.append((
                DATA[data].title, batch, len(found),
                *(percent(mean_of(found, f"dram_energy_saving_{variant}")) for variant in VARIANTS[1:]),
                percent(mean_of(found, "ideal_saving")), percent(paper.DRAM_ENERGY_SAVING),
            ))  # fmt: skip
    return table(("data", "batch", "networks", *(TITLES[variant] for variant in VARIANTS[1:]), "ideal", "paper"), rows)


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
    return table(head, rows)


SECTIONS: dict[str, tuple[str, tuple[Callable[[Mapping[Part, Rows]], str], ...]]] = {
    "Figures 17 and 19: speed-ups": ("paper_speedups", (speedups, zeros)),
    "Figure 16: VGG13 by phase": ("paper_phases", ()),
    "Tables 2 and 3: the Transformer and YOLO-v3": ("", (others,)),
    "Figure 21: energy": ("paper_energy", (savings, goals)),
    "What the paper must have assumed": ("", (assumptions,)),
    "Each network": ("", (networks,)),
    "Energy of an epoch": ("", (energies,)),
}
"""Titles with their image and what is written."""


def short_ways(results: Mapping) -> str:
    """What leaving out and extrapolating change, if it was measured."""
    if ERRORS not in results["details"]:
        return ""
    names = ", ".join(results["details"][ERRORS]["details"])
    known, grown = (results["figures"][f"{name}_error_worst"] for name in ("known", "extrapolated"))
    return fill(
        f"Leaving out what repeats changes the cycles of a batch by {100 * known:.3f} % at most, and extrapolating it"
        f" from a quarter and a half of it by {100 * grown:.2f} % (MAX; {names}). Time grows less evenly than bytes, as"
        " an update is hidden behind the layers of a large batch alone; times of extrapolated rows are rough.", 120,
    )  # fmt: skip


def section(results: Mapping, texts: Mapping[str, str]) -> str:
    """The section: plots and tables, and before each what ``texts`` say by title."""
    parts, blocks = parts_of(results), []
    for title, (image, written) in SECTIONS.items():
        plot = [f"![{title}](images/{image}.png)"] if image else []
        blocks += [f"## {title}", *filter(None, [texts.get(title, "")]), *plot, *(each(parts) for each in written)]
    return "\n\n".join(filter(None, [short_ways(results), *blocks]))


def document(text: str, results: Mapping) -> str:
    """The page with its section anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{section(results, TEXTS)}\n\n{END}{rest.split(END, 1)[1]}"


TEXTS = {
    "Figures 17 and 19: speed-ups": (
        "Over the baseline of the same dataflow at batch 32, in 90 epochs. `free` lets each product keep the operand\n"
        "that makes it faster; the paper has no such figure. Row-stationary arrays (figure 18) aren't built here."
    ),
    "Figure 16: VGG13 by phase": (
        f"The paper has it by layer. Here are whole batches on CIFAR-10: {', '.join(PHASE_TITLES[:3])}."
    ),
    "Each network": (
        "Dataflow `free`, batch 32. * Some operators are the host's, whose time isn't counted. † Extrapolated from\n"
        "two smaller batches. Utilisation counts products over PEs times cycles; those with a border's zeros count too."
    ),
    "Figure 21: energy": (
        "Energy of DRAM traffic. The ideal is a GP batch that moves the bytes of a forward pass alone: no update, no\n"
        "prediction. What was aimed at is below the table."
    ),
    "Energy of an epoch": "Baseline → MAX, where a mean batch of the 90 epochs counts; fetching programs isn't shown.",
}
"""Sentences before the plots and tables."""


def main() -> None:
    """Draw the images and write the section, if there are results."""
    if not RESULT.exists():
        return
    results = json.loads(RESULT.read_text())
    parts, folder = parts_of(results), PATH.parent / "images"
    plot_speedups(list(_cnns(parts, 32)), folder / "paper_speedups.png")
    plot_phases(parts["cifar10", "free", 32]["vgg13"], folder / "paper_phases.png")
    energy = [(data, batch, rows) for (data, flow, batch), rows in parts.items()
              if flow == "free" and (data, batch) in (("imagenet", 32), ("cifar10", 32), ("cifar10", 128))]  # fmt: skip
    plot_energy(energy, folder / "paper_energy.png")
    PATH.write_text(document(PATH.read_text(), results))


if __name__ == "__main__":
    require_checkout()
    main()
