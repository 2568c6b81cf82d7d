"""Sentences of the page of the paper's figures: marks, idle products, and what the paper must have assumed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import mean
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ..instruments.paper_batches import DATA, NETWORKS, figures_of
from ..instruments.variants import limit, shares

__all__ = ["Part", "Rows", "assumptions", "complete", "legend", "marks", "mean_of", "percent", "zeros"]

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


def marks(rows: Iterable[Mapping]) -> str:
    """* if the host computes a part of a network."""
    return "*" * any(row["islands"] for row in rows)


def complete(rows: Rows, data: str) -> bool:
    """True if all the paper's networks of a data set are there."""
    return all(name in rows for name, sets in NETWORKS.items() if data in sets)


def legend(parts: Mapping[Part, Rows]) -> str:
    """The mark of rows, with the operators that are the host's, and the states of the estimator that made the rows."""
    lines, hosted = [], dict[str, dict[str, str]]()
    for (data, _, _), rows in parts.items():
        for name, row in rows.items():
            for operator in row["islands"]:
                hosted.setdefault(operator.replace("_", " "), {})[f"{name} on {DATA[data].title}"] = ""
    if hosted:
        named = "; ".join(f"{operator} of {', '.join(networks)}" for operator, networks in hosted.items())
        lines.append(rf"\* Parts that the host computes, of which neither time nor traffic is counted: {named}.")
    states = Counter(row["commit"] for rows in parts.values() for row in rows.values())
    if len(states) > 1:
        made = ", ".join(f"{commit[:7]} ({count})" for commit, count in states.items())
        lines.append(f"Rows are of several states of the estimator, by commit with their number: {made}.")
    return "\n\n".join(fill(line, 120) for line in lines)


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
        ((figures_of(row)["backward_to_forward"], name, data, batch) for (data, dataflow, batch), rows in parts.items()
         if dataflow == "free" for name, row in rows.items()), default=None,
    )  # fmt: skip
    if largest:
        ratio, name, data, batch = largest
        text += (
            f" The largest ratio of `free` is {ratio:.2f}, of {name} on {DATA[data].title} at batch {batch}, whose"
            f" limit is {limit(ratio, gp):.3f}."
        )
    return fill(text, 120)


def zeros(parts: Mapping[Part, Rows]) -> str:
    """Networks whose baseline multiplies zeros in its backward pass, which makes their speed-ups too large."""
    found: dict[str, str] = {}
    for (data, dataflow, _), rows in parts.items():
        for name, row in rows.items() if dataflow == "free" else ():
            base = row["designs"]["baseline"]
            if (ratio := base["bp"]["macs"] / base["forward"]["macs"]) > PRODUCTS:
                found[f"{name} on {DATA[data].title} ({ratio:.2f})"] = ""
    if not found:
        return ""
    return fill(
        "A BP batch needs three times the products of its forward pass. More, and so a limit and speed-ups that a"
        f" baseline without idle products wouldn't have, has the baseline of {', '.join(found)}.", 120,
    )  # fmt: skip
