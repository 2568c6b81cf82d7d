"""Coverage by block, holes, and what is excluded: pure arithmetic on points and counts."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from adagp.sim.coverage import LINE, TOGGLE, Point

__all__ = ["BRANCH", "Exclusion", "Hole", "exclude", "figures", "holes", "sources", "table", "toggles"]

BRANCH = "branch"
"""Kind of a hole: an arm of an if, a case or a multiplexer; LINE is a line of which nothing has been evaluated."""
KINDS = (LINE, BRANCH, TOGGLE)
EDGES = ("falls", "rises")
N_MOST = 40
"""Number of signals in the list of those with most unseen edges."""


@dataclass(frozen=True)
class Hole:
    """A line, an arm of a branch or an edge of a bit that hasn't been seen.

    ``what``: the arm, for a line its first arm, for a toggle ``signal[bit] falls`` or ``rises``. ``text``: the Verilog.
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
    """Holes that need not be filled: those whose module, text and what match in full, and why."""

    module: str
    text: str
    what: str
    reason: str

    def matches(self, hole: Hole) -> bool:
        pairs = ((self.module, hole.module), (self.text, hole.text), (self.what, hole.what))
        return all(re.fullmatch(pattern, value) for pattern, value in pairs)


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
    """The holes, and the number of all lines, arms and edges by kind and block."""
    found, totals, lines = [], Counter(), defaultdict(list)

    def count(kind, point, what, seen):
        block = blocks[point.module]
        totals[kind, block] += 1
        if not seen:
            found.append(Hole(kind, block, point.module, point.line, what, text[point.line - 1].strip()))

    for counter, (point, number) in sorted(_owners(points).items()):
        if point.kind == TOGGLE:
            count(TOGGLE, point, f"{point.name}[{number // 2}] {EDGES[number % 2]}", counts[counter])
            continue
        lines[point.line].append((point, counts[counter]))
        if point.name != "block":
            count(BRANCH, point, point.name, counts[counter])
    for here in lines.values():
        count(LINE, here[0][0], here[0][0].name, any(seen for _, seen in here))
    return found, totals


def sources(points: Sequence[Point], by_source: Mapping[str, np.ndarray]) -> dict[str, dict[str, int]]:
    """Numbers of lines, branches and edges of bits that each source covers, and that no other source covers."""
    owners = _owners(points)
    kinds = np.array([owners[counter][0].kind == TOGGLE for counter in range(len(owners))])
    seen = {name: counts > 0 for name, counts in by_source.items()}
    once = sum(covered.astype(int) for covered in seen.values()) == 1
    return {
        name: {
            f"{kind}{suffix}": int((which & chosen).sum())
            for kind, chosen in (("points", ~kinds), ("toggles", kinds))
            for suffix, which in (("", covered), ("_alone", covered & once))
        }
        for name, covered in seen.items()
    }  # fmt: skip


def toggles(points: Iterable[Point], counts: np.ndarray, blocks: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Unseen edges by the kind of bits they belong to, and the signals with most of them."""
    signals = defaultdict(set)
    for counter, (point, number) in _owners(points).items():
        if point.kind == TOGGLE and not counts[counter]:
            signals[point].add(number)
    sorts, most = Counter(), Counter()
    for point, numbers in signals.items():
        still = {number // 2 for number in numbers if number ^ 1 in numbers}
        upper = next(bit for bit in range(point.bits, -1, -1) if bit - 1 not in still)
        sorts["signals that never change"] += 2 * len(still) * (upper == 0)
        sorts["upper bits that never change"] += 2 * (point.bits - upper) * (upper > 0)
        sorts["other bits that never change"] += 2 * sum(bit < upper for bit in still)
        sorts["bits that change once"] += len(numbers) - 2 * len(still)
        most[f"{blocks[point.module]} {re.sub(r'[$]?[0-9]+', '', point.name)}"] += len(numbers)
    return {"sorts": dict(sorts), "most": dict(most.most_common(N_MOST))}


def exclude(found: Iterable[Hole], exclusions: Sequence[Exclusion]) -> tuple[list[Hole], dict[str, int]]:
    """The holes that no exclusion matches, and the number of holes that each reason excludes.

    Raises ValueError for an exclusion that matches no hole.
    """
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
    """Percentage covered, of the points that aren't excluded."""
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

    blocks, kinds = (
        sorted({block for _, block in totals}),
        [kind for kind in KINDS if any(kind == k for k, _ in totals)],
    )

    def rows_of(chosen):
        return {name: value for kind in kinds for name, value in row(kind, chosen).items()}

    rows = {block: rows_of([block]) for block in blocks}
    everything = rows_of(blocks)
    found_figures = {f"{kind}_coverage": everything[f"{kind}_coverage"] for kind in kinds}
    lines = defaultdict(list)
    for hole in left:
        if hole.kind != TOGGLE:
            lines[hole.block].append(str(hole))
    details = {"all": everything, "blocks": rows, "excluded": reasons, "open": dict(lines)}
    return found_figures, details, left


def table(details: Mapping) -> str:
    """The table by block, in Markdown."""
    columns = list(details["all"])
    lines = [f"| block | {' | '.join(name.replace('_', ' ') for name in columns)} |", "|---|" + "--:|" * len(columns)]
    for block, row in {**details["blocks"], "all": details["all"]}.items():
        lines.append(f"| {block} | {' | '.join(str(row[name]) for name in columns)} |")
    return "\n".join(lines)
