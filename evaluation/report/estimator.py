"""``docs/estimator.md``: the estimator's errors against the simulated RTL, from ``results/estimate.json``.

``python -m adagp.evaluation.report.estimator`` writes the page's section.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from textwrap import fill

from ..checkout import require_checkout
from .reference import table

__all__ = ["PATH", "RESULT", "document", "main", "section"]

MODULE = "adagp.evaluation.report.estimator"
ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "estimator.md"
"""The committed copy."""
RESULT = ROOT / "results" / "estimate.json"
BEGIN, END = f"<!-- Written by python -m {MODULE}: -->", "<!-- until here -->"
PARTS = {"commands": "single commands", "batches": "whole batches"}
TARGETS = {
    "commands": {"error_median": 0.01, "error_p90": 0.03, "error_worst": 0.1},
    "batches": {"error_worst": 0.02},
}  # fmt: skip
"""Most that the errors of cycles should be."""
BYTES = {"read_error": 0.001, "write_error": 0.001}
FIGURES = ("error_median", "error_p90", "error_worst", *BYTES)
WORST = 5
"""Rows that are named."""


def _error(row: Mapping, name: str = "cycles") -> float:
    ours, theirs = row[f"estimated_{name}"], row[f"simulated_{name}"]
    return ours / theirs - 1 if theirs else float(ours > 0)


def _percent(value: float, digits: int = 2) -> str:
    return f"{100 * value:.{digits}f} %"


def _cell(figure: str, value: float, target: float | None) -> str:
    missed = f" (target {_percent(target, 1)})" if target is not None and value > target else ""
    return _percent(value, 3 if figure in BYTES else 2) + missed


def _named(part: str) -> tuple[str, str]:
    """A part's kind, and the design that it is of."""
    of, size = part.split("_", 1)
    plain = size.removesuffix("_switched")
    return of, f"`{plain}`{' with all switches' * (plain != size)}"


def _summary(results: Mapping) -> str:
    """A row for each part: its errors, and the targets that they miss."""
    rows = []
    for name, part in results["details"].items():
        of, size = _named(name)
        targets = TARGETS[of] | BYTES
        cells = [_cell(figure, results["figures"][f"{figure}_{name}"], targets.get(figure)) for figure in FIGURES]
        rows.append((f"{PARTS[of]}, {size}", len(part["details"]), *cells))
    head = ("what", "number", "cycles: median", "90 %", "worst", "bytes read: worst", "written: worst")
    return table(head, rows)


def _kinds(rows: list[dict]) -> str:
    """Errors of cycles by kind of command, the worst first."""
    kinds: dict[str, list[dict]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    cells = []
    for kind, each in kinds.items():
        cycles, found = [row["simulated_cycles"] for row in each], [abs(_error(row)) for row in each]
        between = f"{min(cycles):,} to {max(cycles):,}"
        cells.append((max(found), (kind.replace("_", " "), len(each), between, median(found), max(found))))
    ordered = [
        (*cell[:3], *map(_percent, cell[3:])) for _, cell in sorted(cells, key=lambda pair: pair[0], reverse=True)
    ]  # fmt: skip
    return table(("kind of command", "number", "cycles", "error: median", "worst"), ordered)


def _told(row: Mapping) -> str:
    what = f"{row['kind'].replace('_', ' ')} of {row['layer']}" if "kind" in row else row["phase"]
    cycles = f"{row['simulated_cycles']:,} cycles, {100 * _error(row):+.2f} %"
    return f"{row['network']}'s {what} ({row['variant']}): {cycles}"


def section(results: Mapping) -> str:
    """Tables of all parts and of the kinds of commands, and the rows that are worst."""
    blocks = [_summary(results)]
    for name, part in results["details"].items():
        of, size = _named(name)
        worst = sorted(part["details"], key=lambda row: -abs(_error(row)))[:WORST]
        blocks.append(fill(f"The worst {PARTS[of]} on {size}: {'; '.join(map(_told, worst))}.", 120))
        if of == "commands":
            blocks.append(_kinds(part["details"]))
    return "\n\n".join(blocks)


def document(text: str, results: Mapping) -> str:
    """The page with its section anew; raises ValueError where it has no marks for it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the section goes between the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{section(results)}\n\n{END}{after}"


def main() -> None:
    """Write the section."""
    PATH.write_text(document(PATH.read_text(), json.loads(RESULT.read_text())))


if __name__ == "__main__":
    require_checkout()
    main()
