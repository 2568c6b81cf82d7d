"""``docs/estimator.md``: our bounds beside ZigZag's cycles, the row-stationary model beside Eyeriss' silicon.

From ``results/zigzag.json`` and ``results/eyeriss.json``.

``python -m adagp.evaluation.report.second_opinions`` writes the page's sections.
"""

import json
from collections.abc import Mapping, Sequence

from ..checkout import require_checkout
from .estimator import PATH, ROOT
from .reference import table

__all__ = ["SECTIONS", "document", "eyeriss", "main", "zigzag"]

MODULE = "adagp.evaluation.report.second_opinions"
TITLES = {"alexnet": "AlexNet", "vgg16": "VGG16"}
DIRECTIONS = ("forward", "backward, data", "backward, weights")
"""Titles of the directions, in the results' order."""
TIMES = {"model": "ms", "processing": "processing_ms", "total": "total_ms"}


def eyeriss(results: Mapping) -> str:
    """A row for each convolution that Eyeriss' authors measured, and for those of a network together."""
    figures, rows = results["figures"], list[Sequence]()
    for network, title in TITLES.items():
        own = [row for row in results["details"] if row["network"] == network]
        for row in own:
            times = (f"{row[key]:,.1f}" for key in TIMES.values())
            rows.append((f"{title}, {row['layer']}", f"{row['pes']:g}", row["measured_pes"], *times))
        times = (
            f"{sum(row[key] for row in own):,.1f} ({100 * figures[f'utilisation_{network}_{name}']:.1f} %)"
            for name, key in TIMES.items()
        )
        rows.append((f"{title}, all: ms (of the peak)", f"{figures[f'pes_{network}_model']:g}", "", *times))
    head = ("convolution", "PEs: model", "chip", "ms: model", "chip, processing", "chip, with DRAM")
    return table(head, rows)


def zigzag(results: Mapping) -> str:
    """A row for each layer: cycles by direction, where both have the same, and what tiles add at most."""
    layers: dict[str, list[Mapping]] = {}
    for row in results["details"]:
        layers.setdefault(row["layer"], []).append(row)
    rows = [
        (name, *map(_cycles, own), f"{100 * max(row['tiled'] / row['one_tile'] - 1 for row in own):.2f} %")
        for name, own in layers.items()
    ]
    return table(("layer", *DIRECTIONS, "tiles add at most"), rows)


def _cycles(row: Mapping) -> str:
    """Cycles of both, or of each where they differ."""
    if row["one_tile"] == row["zigzag"]:
        return f"{row['zigzag']:,}"
    return f"{row['one_tile']:,}, ZigZag {row['zigzag']:,}{'*' * row['rounded_up']}"


SECTIONS = {"zigzag": zigzag, "eyeriss": eyeriss}
"""Sections by the name of their results."""


def document(text: str, results: Mapping[str, Mapping]) -> str:
    """The page with the sections of the results anew; raises ValueError where it has no marks for one."""
    for name, each in results.items():
        begin, end = f"<!-- {name} by python -m {MODULE}: -->", f"<!-- until here: {name} -->"
        before, found, rest = text.partition(begin)
        _, also, after = rest.partition(end)
        if not found or not also:
            raise ValueError(f"the section goes between the lines {begin} and {end}")
        text = f"{before}{begin}\n\n{SECTIONS[name](each)}\n\n{end}{after}"
    return text


def main() -> None:
    """Write the sections."""
    results = {name: json.loads((ROOT / "results" / f"{name}.json").read_text()) for name in SECTIONS}
    PATH.write_text(document(PATH.read_text(), results))


if __name__ == "__main__":
    require_checkout()
    main()
