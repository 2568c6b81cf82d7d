"""Sentences of the page of the paper's figures: marks, idle products, and what the paper must have assumed."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isqrt
from statistics import mean
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ..instruments.paper_batches import DATA, NETWORKS, design, figures_of
from ..instruments.variants import limit, shares

__all__ = ["Part", "Rows", "assumptions", "complete", "legend", "marks", "mean_of", "percent", "zeros"]

NARROW = 49
"""Bits of the accumulator of the first rows, some of which have batch norm on the host."""
PRODUCTS = 3.05
"""Products of a BP batch over those of its forward pass, from which on the array multiplies zeros."""

Rows = dict[str, dict]
Part = tuple[str, str, int]
"""A data set, dataflow and batch."""


def percent(value: float) -> str:
    """A part in percent."""
    return f"{100 * value:.1f} %"


def mean_of(rows: Rows, what: str) -> float:
    """The mean of a figure over networks."""
    return mean(figures_of(row)[what] for row in rows.values())


def marks(rows: Iterable[Mapping], batch: int) -> str:
    """* if the host computes a part of a network, † if a network's batch is extrapolated."""
    there = list(rows)
    hosted, grown = any(row["islands"] for row in there), any(row["of"] != [batch] for row in there)
    return "*" * hosted + "†" * grown


def complete(rows: Rows, data: str) -> bool:
    """True if all the paper's networks of a data set are there."""
    return all(name in rows for name, sets in NETWORKS.items() if data in sets)


def legend(parts: Mapping[Part, Rows]) -> str:
    """The marks of rows: which parts of which networks are the host's, and what is extrapolated."""
    lines, hosted = [], dict[str, dict[str, str]]()
    for (data, _, _), rows in parts.items():
        for name, row in rows.items():
            for operator in row["islands"]:
                hosted.setdefault(operator.replace("_", " "), {})[f"{name} on {DATA[data].title}"] = ""
    if hosted:
        named = "; ".join(f"{operator} of {', '.join(networks)}" for operator, networks in hosted.items())
        lines.append(rf"\* Parts that the host computes, of which neither time nor traffic is counted: {named}.")
    if "batch norm" in hosted:
        base, side = design("paper", "baseline"), DATA["imagenet"].side
        most = replace(base, acc_width=NARROW).max_values
        lines.append(
            f"Where batch norm is the host's, the row is of a design whose accumulator has {NARROW} bits. It adds up"
            f" {most:,} values of a channel: not those of a batch of 32 in maps larger than {isqrt(most // 32)} x"
            f" {isqrt(most // 32)}, as with images of {side} pixels those of {side} and {side // 2} are. Batch norm of"
            f" smaller maps is counted. With {base.acc_width} bits no batch norm is the host's."
        )
    if any("†" in marks(rows.values(), batch) for (_, _, batch), rows in parts.items()):
        lines.append("† The batch is extrapolated from two smaller ones.")
    lines += _states(parts)
    return "\n\n".join(fill(line, 120) for line in lines)


def _states(parts: Mapping[Part, Rows]) -> list[str]:
    """A sentence that says which rows are of which sources, if they aren't all of the same."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for (data, _, _), rows in parts.items():
        for name, row in rows.items():
            found.setdefault(row["commit"], {}).setdefault(DATA[data].title, {})[name] = ""
    if len(found) < 2:
        return []
    made = (
        f"{commit[:7]} made " + " and ".join(f"{', '.join(names)} on {title}" for title, names in sets.items())
        for commit, sets in found.items()
    )
    return [f"Rows are of several states of the estimator, by commit: {'; '.join(made)}."]


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
        f" of {percent(1 - paper.DRAM_ENERGY_SAVING / gp)} of a batch's energy, if GP moves nothing else."
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
