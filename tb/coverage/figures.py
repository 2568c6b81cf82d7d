"""Coverage by block, holes, and what is excluded: pure arithmetic on points and counts."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from adagp.sim.coverage import LINE, TOGGLE, Point

__all__ = ["Exclusion", "Hole", "exclude", "figures", "holes", "table"]

EDGES = ("falls", "rises")


@dataclass(frozen=True)
class Hole:
    """A counter that has stayed at 0.

    ``what``: of a line which branch, of a toggle ``signal[bit] falls`` or ``rises``; ``text``: the line of Verilog.
    """

    kind: str
    block: str
    module: str
    line: int
    what: str
    text: str

    def __str__(self):
        return f"{self.module}:{self.line} {self.what}: {self.text}"


@dataclass(frozen=True)
class Exclusion:
    """Holes that need not be filled: those of ``kind`` whose module, text and what match in full, and why."""

    kind: str
    module: str
    text: str
    what: str
    reason: str

    def matches(self, hole: Hole) -> bool:
        pairs = ((self.module, hole.module), (self.text, hole.text), (self.what, hole.what))
        return self.kind == hole.kind and all(re.fullmatch(pattern, value) for pattern, value in pairs)


def _owners(points: Iterable[Point]) -> dict[int, tuple[Point, int]]:
    """The point of each counter and its number there; of several, that in the innermost module."""
    owners: dict[int, tuple[Point, int]] = {}
    for point in points:
        for number in range(point.n_counters):
            counter = point.counter + number
            if counter not in owners or len(owners[counter][0].module) < len(point.module):
                owners[counter] = point, number
    return owners


def holes(
    points: Iterable[Point], counts: np.ndarray, blocks: Mapping[str, str], text: Sequence[str]
) -> tuple[list[Hole], Counter]:
    """The holes, and the number of all counters by kind and block."""
    found, totals = [], Counter()
    for counter, (point, number) in sorted(_owners(points).items()):
        block = blocks[point.module]
        totals[point.kind, block] += 1
        if counts[counter] == 0:
            what = f"{point.name}[{number // 2}] {EDGES[number % 2]}" if point.kind == TOGGLE else point.name
            found.append(Hole(point.kind, block, point.module, point.line, what, text[point.line - 1].strip()))
    return found, totals


def exclude(found: Iterable[Hole], exclusions: Sequence[Exclusion]) -> tuple[list[Hole], dict[str, int]]:
    """The holes that no exclusion matches, and how many each reason excludes; ValueError for one that matches none."""
    left, reasons = [], Counter(dict.fromkeys(exclusions, 0))
    for hole in found:
        match = next((exclusion for exclusion in exclusions if exclusion.matches(hole)), None)
        if match is None:
            left.append(hole)
        else:
            reasons[match] += 1
    if useless := [exclusion for exclusion, number in reasons.items() if not number]:
        raise ValueError(f"no hole is excluded by {useless[0]}")
    by_reason: Counter = Counter()
    for exclusion, number in reasons.items():
        by_reason[exclusion.reason] += number
    return left, dict(by_reason)


def _percent(total: int, excluded: int, left: int) -> float:
    """Share of what isn't excluded that is covered."""
    return round(100 * (1 - left / max(total - excluded, 1)), 3)


def figures(found: Sequence[Hole], totals: Counter, exclusions: Sequence[Exclusion]) -> tuple[dict, dict, list[Hole]]:
    """Figures, of the kinds that were counted, details by block and reason, and the holes that are left."""
    left, reasons = exclude(found, exclusions)
    all_holes = Counter((hole.kind, hole.block) for hole in found)
    open_holes = Counter((hole.kind, hole.block) for hole in left)

    def row(kind, chosen):
        total, holes_, open_ = (sum(c[kind, block] for block in chosen) for c in (totals, all_holes, open_holes))
        return {
            f"{kind}_counters": total, f"{kind}_excluded": holes_ - open_, f"{kind}_holes": open_,
            f"{kind}_coverage": _percent(total, holes_ - open_, open_),
        }  # fmt: skip

    blocks, kinds = sorted({block for _, block in totals}), sorted({kind for kind, _ in totals})

    def rows_of(chosen):
        return {name: value for kind in kinds for name, value in row(kind, chosen).items()}

    rows = {block: rows_of([block]) for block in blocks}
    everything = rows_of(blocks)
    found_figures = {f"{kind}_coverage": everything[f"{kind}_coverage"] for kind in kinds}
    lines = defaultdict(list)
    for hole in left:
        if hole.kind == LINE:
            lines[hole.block].append(str(hole))
    details = {"all": everything, "blocks": rows, "excluded": reasons, "line_holes": dict(lines)}
    return found_figures, details, left


def table(details: Mapping) -> str:
    """The table by block, in Markdown."""
    columns = list(details["all"])
    lines = [f"| block | {' | '.join(name.replace('_', ' ') for name in columns)} |", "|---|" + "--:|" * len(columns)]
    for block, row in {**details["blocks"], "all": details["all"]}.items():
        lines.append(f"| {block} | {' | '.join(str(row[name]) for name in columns)} |")
    return "\n".join(lines)
