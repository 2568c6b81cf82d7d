"""Tables of the page of the paper's figures: speed-ups, energy, each network."""

from collections.abc import Mapping, Sequence

from ...algorithm import paper_numbers as paper
from ...host.compiler.dataflow import DATAFLOWS, MODELLED
from ...spec.config import VARIANTS
from ...spec.phases import PHASE_NAMES, PHASE_TITLES
from ..instruments.paper_batches import AFTER, DATA, KINDS, figures_of
from .paper_plots import TITLES, Layers, energy, layer_names
from .paper_sentences import Part, Rows, complete, marks, mean_of, percent
from .reference import table

__all__ = ["FLOWS", "cnns", "energies", "flows", "layers", "networks", "others", "savings", "speedups"]

FIGURES = {"ws": "figure 17", "is": "figure 19", "rs": "figure 18; a model, no RTL"}
"""The paper's figures by dataflow."""
TARGETS = {("imagenet", 32): 0.33, ("cifar10", 128): 0.32, ("cifar100", 128): 0.32}
"""Savings that MAX is to reach in the mean of the networks, by data set and batch."""
ALONE = ("multi30k", "voc")
"""Data sets with a single network, whose energy the paper doesn't print."""
FLOWS = (*DATAFLOWS, *MODELLED)
UTILISATION = "baseline's array: useful utilisation / zeros counted"
UTILISATIONS = ("baseline_useful_utilisation", "baseline_utilisation")


def _most(rows: Rows, what: str) -> float:
    return max(figures_of(row)[what] for row in rows.values())


def cnns(parts: Mapping[Part, Rows]) -> dict[Part, Rows]:
    """Parts of the CNNs, those of a dataflow after each other."""
    order = sorted(parts, key=lambda part: FLOWS.index(part[1]))
    return {part: parts[part] for part in order if part[0] in ("cifar10", "cifar100", "imagenet")}


def _titled(data: str, batch: int) -> str:
    """A data set, and its batch if it isn't 32."""
    return DATA[data].title + f", batch {batch}" * (batch != 32)


def _range(rows: Rows, what: str) -> str:
    """Mean and most of a figure over networks."""
    return f"{mean_of(rows, what):.3f}, {_most(rows, what):.3f}"


def _table(head: Sequence[str], rows: Sequence[Sequence]) -> str:
    return table(head, rows) if rows else ""


def _utilisations(found: Mapping[str, float]) -> str:
    return " / ".join(percent(found[what]) for what in UTILISATIONS)


def speedups(parts: Mapping[Part, Rows]) -> str:
    """Means and maxima of the speed-ups over networks that all dataflows have, then over all of a dataflow.

    The paper's stand beside those of all its networks.
    """
    rows, all_parts = [], cnns(parts)
    for (data, dataflow, batch), found in all_parts.items():
        others = [there for (other, _, size), there in all_parts.items() if (other, size) == (data, batch)]
        shared = {name: row for name, row in found.items() if all(name in there for there in others)}
        title = f"{dataflow} ({FIGURES[dataflow]})" if dataflow in FIGURES else dataflow
        for label, chosen in ((title, shared), (f"{title}, all there are", found if found != shared else {})):
            if not chosen:
                continue
            theirs = (of.get(dataflow, {}).get(data) for of in (paper.DATAFLOW_SPEEDUP, paper.DATAFLOW_MOST_SPEEDUP))
            printed = ", ".join(str(each) for each in theirs if each is not None) if complete(chosen, data) else ""
            rows.append((
                f"{label}{marks(chosen.values())}, {_titled(data, batch)}", len(chosen),
                *(_range(chosen, f"speedup_{variant}") for variant in VARIANTS[1:]), printed,
                _range(chosen, "limit"), f"{mean_of(chosen, 'backward_to_forward'):.2f}",
                _utilisations({what: mean_of(chosen, what) for what in UTILISATIONS}),
            ))  # fmt: skip
    head = ("dataflow, data", "networks", *(f"{TITLES[variant]}: mean, most" for variant in VARIANTS[1:]),
            "paper, MAX: mean, most", "limit: mean, most", "backward / forward", UTILISATION)  # fmt: skip
    return _table(head, rows)


def flows(parts: Mapping[Part, Rows]) -> str:
    """MAX's speed-up and its limit by network and dataflow, where there are several."""
    found: dict[tuple[str, str, int], dict[str, str]] = {}
    for (data, dataflow, batch), there in parts.items():
        for name, row in there.items():
            one = figures_of(row)
            cell = f"{one['speedup_max']:.3f} / {one['limit']:.3f}"
            found.setdefault((name, data, batch), {})[dataflow] = cell
    rows = [
        (f"{name}, {_titled(data, batch)}", *(cells.get(dataflow, "") for dataflow in FLOWS))
        for (name, data, batch), cells in found.items() if len(cells) > 1
    ]  # fmt: skip
    return _table(("network, data", *FLOWS), rows)


LAYERED = (
    ("efficient", "warmup"), ("efficient", "bp"), ("efficient", "gp"), ("low", "bp"), ("low", "gp"), ("max", "bp"),
    ("max", "gp"),
)  # fmt: skip
"""Designs and phases whose cycles are told by layer."""
CYCLES = (("baseline", "bp"), ("max", "bp"), ("max", "warmup"), ("max", "gp"))
"""Designs and phases whose cycles stand beside each other."""


def networks(parts: Mapping[Part, Rows]) -> str:
    """A row for each network, data set and batch of dataflow ``free``."""
    rows = []
    for (data, flow, batch), found in parts.items():
        for name, row in found.items() if flow == "free" else ():
            one = figures_of(row)
            rows.append((
                f"{name}{marks([row])}, {_titled(data, batch)}",
                *(f"{one[f'speedup_{variant}']:.3f}" for variant in VARIANTS[1:]), f"{one['limit']:.3f}",
                f"{one['backward_to_forward']:.2f}", _utilisations(one),
                " / ".join(f"{row['designs'][variant][phase]['cycles'] / 1e6:,.0f}" for variant, phase in CYCLES),
                f"{percent(one['dram_energy_saving_max'])} / {percent(one['ideal_saving'])}",
            ))  # fmt: skip
    head = ("network, data", *(TITLES[variant] for variant in VARIANTS[1:]), "limit", "backward / forward",
            UTILISATION, "M cycles: baseline / MAX's BP / warm-up / GP", "energy saved: MAX / ideal")  # fmt: skip
    return _table(head, rows)


def layers(found: Layers) -> str:
    """Cycles by layer, with the shares of the baseline's in brackets."""
    rows = []
    for name, title in layer_names(found).items():
        base = found["baseline"]["bp"][name]
        each = [found[variant][phase][name] for variant, phase in LAYERED]
        shares = [f" ({100 * count / base:.0f} %)" * (name != AFTER) for count in each]
        cells = (f"{count / 1e3:,.0f}{share}" for count, share in zip(each, shares, strict=True))
        rows.append((title, f"{base / 1e3:,.0f}", *cells))
    titles = (f"{TITLES[variant]}, {PHASE_TITLES[PHASE_NAMES.index(phase)]}" for variant, phase in LAYERED)
    head = ("layer", "baseline", *titles)
    return table(head, rows)


def energies(parts: Mapping[Part, Rows]) -> str:
    """Kilojoules of an epoch by kind of traffic, and what is saved."""
    rows = []
    for (data, dataflow, batch), found in parts.items():
        for name, row in found.items() if dataflow == "free" else ():
            batches, one = DATA[data].examples / batch, figures_of(row)
            base, ours = energy(row, "baseline"), energy(row, "max")
            cells = [
                f"{base[kind] * batches * 1e-15:,.3f} → {ours[kind] * batches * 1e-15:,.3f}" for kind in KINDS[:-1]
            ]
            rows.append((
                f"{name}{marks([row])}, {DATA[data].title}", batch, *cells,
                " / ".join(percent(one[f"dram_energy_saving_{variant}"]) for variant in VARIANTS[1:]),
                percent(one["ideal_saving"]),
            ))  # fmt: skip
    saved = " / ".join(TITLES[variant] for variant in VARIANTS[1:])
    head = ("network, data", "batch", *(f"{kind}, kJ" for kind in KINDS[:-1]), f"saved: {saved}", "ideal")
    return _table(head, rows)


def savings(parts: Mapping[Part, Rows]) -> str:
    """Means of the savings by data set, dataflow and batch; the most of MAX."""
    rows = []
    for (data, dataflow, batch), found in parts.items():
        saved = [mean_of(found, f"dram_energy_saving_{variant}") for variant in VARIANTS[1:]]
        ideal = mean_of(found, "ideal_saving")
        wanted = TARGETS.get((data, batch), 0.0) if dataflow == "free" else 0.0
        above = ", above the ideal" * (wanted > ideal)
        missed = f" (target {percent(wanted)}{above})" * (saved[-1] < wanted)
        most = percent(_most(found, "dram_energy_saving_max"))
        rows.append((
            f"{DATA[data].title}{marks(found.values())}, {dataflow}", batch, len(found), *map(percent, saved[:-1]),
            f"{percent(saved[-1])}, {most}{missed}", percent(ideal),
            percent(paper.DRAM_ENERGY_SAVING) if complete(found, data) and data not in ALONE else "",
        ))  # fmt: skip
    head = ("data, dataflow", "batch", "networks", *(TITLES[variant] for variant in VARIANTS[1:-1]), "MAX: mean, most",
            "ideal", "paper")  # fmt: skip
    return _table(head, rows)


def others(parts: Mapping[Part, Rows]) -> str:
    """The Transformer and YOLO-v3 beside tables 2 and 3."""
    rows = []
    for (data, dataflow, batch), found in parts.items():
        for name, row in found.items() if data in ALONE else ():
            one = figures_of(row)
            printed: Mapping[str, float] = paper.CYCLES[name]
            rows.append((
                f"{name}, {dataflow}", batch, *(f"{one[f'speedup_{variant}']:.3f}" for variant in VARIANTS[1:]),
                f"{one['limit']:.3f}",
                *(f"{printed['baseline'] / printed[v]:.3f}" if v in printed else "" for v in ("efficient", "max")),
                ", ".join(row["islands"]) or "none",
            ))  # fmt: skip
    head = ("network, dataflow", "batch", *(TITLES[variant] for variant in VARIANTS[1:]), "limit", "paper, Efficient",
            "paper, MAX", "operators of the host")  # fmt: skip
    return _table(head, rows)
