"""Sections of pages that show one result each.

``docs/estimator.md``: our bounds beside ZigZag's cycles, the row-stationary model beside Eyeriss' silicon. The decision
on the output-stationary array: what it gains and costs.

``python -m adagp.evaluation.report.result_sections`` writes the sections.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..checkout import require_checkout
from .estimator import PATH, ROOT
from .reference import table

__all__ = ["SECTIONS", "document", "eyeriss", "main", "output_stationary", "zigzag"]

MODULE = "adagp.evaluation.report.result_sections"
TITLES = {"alexnet": "AlexNet", "vgg16": "VGG16"}
DIRECTIONS = ("forward", "backward, data", "backward, weights")
"""Titles of the directions, in the results' order."""
TARGETS = {"xilinx": "`paper`, 7 series", "ecp5": "`ecp5`, ECP5"}
BLOCKS = {"array": "array", "compute": "compute engine"}
STAYS = {"ws": "operand", "os": "sums"}
AREAS = """Areas by Yosys; the compute engine has fetchers, feeder, accumulator and pool unit, without switches:"""
AREA_HEAD = ("preset, target", "block", "what stays", "LUT", "FF", "multipliers")
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


def output_stationary(results: Mapping) -> str:
    """Cycles and accesses of networks by dataflow, then areas by block and by what stays in the PEs."""
    figures = results["figures"]
    networks = dict.fromkeys(name.removeprefix("cycles_").rsplit("_", 1)[0] for name in figures if "cycles_" in name)
    flows = dict.fromkeys(name.rsplit("_", 1)[1] for name in figures if name.startswith("cycles_"))
    rows = [
        (
            network, f"`{flow}`", f"{figures[f'cycles_{network}_{flow}'] / 1e6:,.2f}",
            f"{100 * figures[f'useful_utilisation_{network}_{flow}']:.1f} %",
            f"{100 * figures[f'array_share_{network}_{flow}']:.1f} %",
            f"{figures[f'accumulator_{network}_{flow}']:.4f}",
        )
        for network in networks for flow in flows
    ]  # fmt: skip
    head = ("network", "dataflow", "cycles, millions", "useful utilisation", "array's share", "accesses")
    areas: list[Sequence] = []
    for name, area in results["details"]["areas"].items():
        block, target, stays = name.split("_")
        multipliers = area.get("dsp48") or area["multiplier"]
        areas.append((TARGETS[target], BLOCKS[block], STAYS[stays], f"{area['lut']:,}", f"{area['ff']:,}", multipliers))
    return f"{table(head, rows)}\n\n{AREAS}\n\n{table(AREA_HEAD, areas)}"


DECISION = ROOT / "docs" / "decisions" / "output-stationary.md"
SECTIONS: dict[str, tuple[Path, Callable[[Mapping], str]]] = {
    "zigzag": (PATH, zigzag), "eyeriss": (PATH, eyeriss), "output_stationary": (DECISION, output_stationary),
}  # fmt: skip
"""Page and section by the name of the result."""


def document(text: str, name: str, results: Mapping) -> str:
    """A page with a result's section anew; raises ValueError where it has no marks for it."""
    begin, end = f"<!-- {name} by python -m {MODULE}: -->", f"<!-- until here: {name} -->"
    before, found, rest = text.partition(begin)
    _, also, after = rest.partition(end)
    if not found or not also:
        raise ValueError(f"the section goes between the lines {begin} and {end}")
    return f"{before}{begin}\n\n{SECTIONS[name][1](results)}\n\n{end}{after}"


def main() -> None:
    """Write the sections."""
    for name, (path, _) in SECTIONS.items():
        results = json.loads((ROOT / "results" / f"{name}.json").read_text())
        path.write_text(document(path.read_text(), name, results))


if __name__ == "__main__":
    require_checkout()
    main()
