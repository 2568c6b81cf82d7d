"""Sentences of the page of the paper's figures: marks, idle products, and what the paper must have assumed."""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import mean
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ...rtl.update.arrays import array_bytes
from ...spec.presets import preset
from ..instruments.paper_batches import DATA, NETWORKS, figures_of
from ..instruments.variants import limit, shares

__all__ = [
    "Part", "Rows", "assumptions", "beyond_limits", "complete", "left_alone", "legend", "marks", "mean_of", "percent",
    "with_all_updates", "zeros",
]  # fmt: skip

PRODUCTS = 3.05
"""Products of a BP batch over those of its forward pass, from which on the array multiplies zeros."""

LEFT = 0.02
"""Part of a network's weights that GP may leave alone without a mark."""
_SIZES = array_bytes(preset("paper"))
_WRITTEN = sum(_SIZES.values()) - _SIZES["g"]
READ, PREDICTED = sum(_SIZES.values()) / _WRITTEN, _SIZES["g"] / _WRITTEN
"""Bytes that an update in GP reads of a weight, and that its prediction takes, over those that it writes."""

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
    """* if the host computes a part of a network, and † if GP leaves many of a network's weights alone."""
    rows = list(rows)
    return "*" * any(row["islands"] for row in rows) + "†" * any(left_alone(row) > LEFT for row in rows)


def left_alone(row: Mapping) -> float:
    """The part of the trained weights that MAX's GP batches don't update: those of layers that aren't predicted."""
    gp, bp = (row["designs"]["max"][phase]["bytes"]["update"][1] for phase in ("gp", "bp"))
    return 1 - gp / bp if bp else 0.0


def with_all_updates(row: Mapping) -> dict:
    """The row if MAX's GP batches predicted and updated the weights that they leave alone."""
    found = copy.deepcopy(dict(row))
    gp, bp = (found["designs"]["max"][phase] for phase in ("gp", "bp"))
    written = bp["bytes"]["update"][1] - gp["bytes"]["update"][1]
    for side, name, more in ((0, "read_bytes", READ), (1, "write_bytes", 1 + PREDICTED)):
        gp[name] += more * written
        gp["bytes"]["update"][side] += more * written
    return found


def complete(rows: Rows, data: str) -> bool:
    """True if all the paper's networks of a data set are there."""
    return all(name in rows for name, sets in NETWORKS.items() if data in sets)


def legend(parts: Mapping[Part, Rows]) -> str:
    """The mark of rows, with the operators that are the host's, and the states of the estimator that made the rows."""
    lines, hosted = [], dict[str, str]()
    for (data, _, _), rows in parts.items():
        for name, row in rows.items():
            if row["islands"]:
                operators = ", ".join(f"`{operator}`" for operator in row["islands"])
                hosted[f"{name} on {DATA[data].title}"] = operators
    if hosted:
        named = "; ".join(f"{name}: {operators}" for name, operators in hosted.items())
        lines.append(rf"\* Operators that the host computes, of which neither time nor traffic is counted: {named}.")
    if told := _left_alone(parts):
        lines.append(told)
    states = Counter(row["commit"] for rows in parts.values() for row in rows.values())
    if len(states) > 1:
        made = ", ".join(f"{commit[:7]} ({count})" for commit, count in states.items())
        lines.append(f"Rows are of several states of the estimator, by commit with their number: {made}.")
    return "\n\n".join(fill(line, 120) for line in lines)


def _left_alone(parts: Mapping[Part, Rows]) -> str:
    """The networks of which GP leaves many weights alone, and their savings without that; empty if there is none."""
    shares_of, savings, means = [], [], []
    for (data, dataflow, batch), rows in parts.items():
        marked = [name for name, row in rows.items() if left_alone(row) > LEFT]
        if dataflow != "free" or not marked:
            continue
        size = f" at batch {batch}" * (batch != 32)
        whole = {name: with_all_updates(row) for name, row in rows.items()}
        shares_of += [f"{100 * left_alone(rows[name]):.0f} % in {name} on {DATA[data].title}{size}" for name in marked]
        saved = {name: [percent(figures_of(each[name])["dram_energy_saving_max"]) for each in (whole, rows)]
                 for name in marked}  # fmt: skip
        savings += [f"{new} with {name} in place of {old}" for name, (new, old) in saved.items()]
        if len(rows) > len(marked):
            new, old = (percent(mean_of(each, "dram_energy_saving_max")) for each in (whole, rows))
            means.append(f" The mean on {DATA[data].title}{size} would be {new} in place of {old}.")
    if not savings:
        return ""
    return (
        "† GP leaves layers as they are that the predictor is too small for. They have so many of the weights:"
        f" {', '.join(shares_of)}. Savings and speed-ups are larger for it. With predictions for all weights MAX would"
        " save"
        f" {', '.join(savings)}." + "".join(means)
    )


def beyond_limits(parts: Mapping[Part, Rows]) -> str:
    """The rows whose speed-up exceeds the limit; empty if there is none."""
    over = [
        (one["speedup_max"] - one["limit"], name) for rows in parts.values() for name, row in rows.items()
        if (one := figures_of(row))["speedup_max"] > one["limit"]
    ]  # fmt: skip
    if not over:
        return ""
    rows = sum(map(len, parts.values()))
    return fill(
        f"In {len(over)} of {rows} rows MAX's speed-up exceeds its limit, by {max(over)[0]:.4f} at most. There its"
        " batch of backpropagation comes out a little shorter than the baseline's, with as many cycles of the array."
        " The estimate doesn't tell whether the hardware's does so too: both are within its error.", 120,
    )  # fmt: skip


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
        f"{', '.join(f'{each:g}' for each in wanted[:-1])} and {wanted[-1]:g} need backward passes of"
        f" {', '.join(map(needed, wanted[:-1]))} and {needed(wanted[-1])} forward passes, with predictions that cost"
        f" nothing. A saving of {percent(paper.DRAM_ENERGY_SAVING)} needs a forward pass"
        f" of {percent(1 - paper.DRAM_ENERGY_SAVING / gp)} of a batch's energy, if GP moves nothing else."
    )
    for dataflow, what in (("free", "`free`"), ("rs", "the row-stationary model")):
        found = [
            (figures_of(row)["backward_to_forward"], name, data, batch)
            for (data, flow, batch), rows in parts.items() if flow == dataflow for name, row in rows.items()
        ]  # fmt: skip
        if found:
            ratio, name, data, batch = max(found)
            text += (
                f" The largest ratio of {what} is {ratio:.2f}, of {name} on {DATA[data].title} at batch {batch}, whose"
                f" limit is {limit(ratio, gp):.3f}."
            )
            if dataflow == "rs":
                text += (
                    " It comes from PEs that idle in backward passes, whose shapes fold badly: a baseline with such"
                    " backward passes gains more from leaving them out."
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
