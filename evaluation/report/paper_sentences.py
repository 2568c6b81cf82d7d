"""Sentences of the page of the paper's figures: aims, idle products, and what the paper must have assumed."""

from collections.abc import Mapping
from statistics import mean
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ..instruments.paper_batches import DATA, NETWORKS, figures_of
from ..instruments.variants import limit, shares

__all__ = ["Part", "Rows", "assumptions", "goals", "mean_of", "percent", "zeros"]

PRODUCTS = 3.05
"""Products of a BP batch over those of its forward pass, from which on the array multiplies zeros."""
ENERGY_GOALS = (("imagenet", 32, None, 0.33), ("cifar10", 128, None, 0.32), ("cifar10", 32, "vgg13", 0.25))
"""Savings aimed at: a data set's mean, or a network's, at a batch."""

Rows = dict[str, dict]
Part = tuple[str, str, int]
"""A data set, dataflow and batch."""


def percent(value: float) -> str:
    """A part in percent."""
    return f"{100 * value:.1f} %"


def mean_of(rows: Rows, what: str) -> float:
    """The mean of a figure over networks."""
    return mean(figures_of(row)[what] for row in rows.values())


def goals(parts: Mapping[Part, Rows]) -> str:
    """A sentence for each saving that was aimed at, if it is known."""
    lines = []
    for data, batch, network, least in ENERGY_GOALS:
        rows = parts.get((data, "free", batch), {})
        if network:
            rows = {network: rows[network]} if network in rows else {}
        there = [name for name, sets in NETWORKS.items() if data in sets]
        whose = network or f"the mean of {len(rows)} of {len(there)} networks"
        verdict = "not estimated yet"
        if rows:
            found = mean_of(rows, "dram_energy_saving_max")
            verdict = f"{percent(found)}, {'reached' if found >= least else 'missed'}"
        lines.append(f"- {DATA[data].title} at batch {batch}, {whose}, aim {percent(least)}: {verdict}.")
    return "\n".join(lines)


def assumptions(parts: Mapping[Part, Rows]) -> str:
    """The backward passes that the paper's maxima need, and the forward share of traffic that its saving needs."""
    gp = shares()["gp"]

    def needed(speedup: float) -> str:
        low = (speedup - 1) / (1 - speedup * (1 - gp))  # of limit(ratio, gp) = speedup
        assert abs(limit(low, gp) - speedup) < 1e-9
        return f"{low:.2f}"

    wanted = sorted({each for by in paper.DATAFLOW_MOST_SPEEDUP.values() for each in by.values()})
    text = (
        f"With GP in {percent(gp)} of the batches a prediction that costs nothing is {limit(2, gp):.3f} times as fast,"
        " if a backward pass takes twice as long as a forward pass. "
        + ", ".join(f"{each:g} needs a backward pass of {needed(each)} forward passes" for each in wanted)
        + f", with predictions that cost nothing. A saving of {percent(paper.DRAM_ENERGY_SAVING)} needs a forward pass"
        f" of {percent(1 - paper.DRAM_ENERGY_SAVING / gp)} of a batch's energy, if GP moves nothing else:"
        f" 2 : 5, the forward to the backward traffic without updates, gives {percent(gp * 5 / 7)}."
    )
    largest = max(
        ((figures_of(row)["backward_to_forward"], name, data) for (data, dataflow, batch), rows in parts.items()
         if dataflow == "free" and batch == 32 for name, row in rows.items()), default=None,
    )  # fmt: skip
    if largest:
        ratio, name, data = largest
        text += (
            f" The largest ratio here is {ratio:.2f}, of {name} on {DATA[data].title}, whose limit is"
            f" {limit(ratio, gp):.3f}."
        )
    return fill(text, 120)


def zeros(parts: Mapping[Part, Rows]) -> str:
    """Networks whose baseline multiplies zeros in its backward pass, which makes their speed-ups too large."""
    found = []
    for (data, dataflow, batch), rows in parts.items():
        for name, row in rows.items() if (dataflow, batch) == ("free", 32) else ():
            base = row["designs"]["baseline"]
            if (ratio := base["bp"]["macs"] / base["forward"]["macs"]) > PRODUCTS:
                found.append(f"{name} on {DATA[data].title} ({ratio:.2f})")
    if not found:
        return ""
    return fill(
        "A BP batch needs three times the products of its forward pass. More, and so a limit and speed-ups that a"
        f" baseline without idle products wouldn't have, has the baseline of {', '.join(found)}.", 120,
    )  # fmt: skip
