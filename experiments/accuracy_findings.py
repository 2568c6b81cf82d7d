"""What ``results/accuracy.json`` says, in sentences and side by side."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ..gen.tables import table
from .methods import METHODS
from .regimes import REGIMES

__all__ = ["Findings", "Gap", "pairs", "verdicts"]

CLEAR = 2
"""So many standard errors make a difference clear."""


@dataclass(frozen=True)
class Gap:
    """A mean difference, and its standard error."""

    mean: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether it is more than chance would make of none."""
        return abs(self.mean) > CLEAR * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.error:.2f}"


@dataclass(frozen=True)
class Findings:
    """Of a regime: figures, details and provenance, as :mod:`.bench_accuracy` has written them."""

    name: str
    figures: Mapping[str, float]
    details: Mapping[str, Any]
    origin: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> dict[str, "Findings"]:
        """All that there are, by regime, in their usual order."""
        written = json.loads(path.read_text())
        parts = written["details"]
        known = [name for name in REGIMES if name in parts]
        names = [*known, *(name for name in parts if name not in known)]
        return {
            name: cls(name, written["figures"], parts[name]["details"], written["provenance"][name]) for name in names
        }  # fmt: skip

    @property
    def regime(self) -> Mapping[str, Any]:
        """Its settings."""
        regime: Mapping[str, Any] = self.details["regime"]
        return regime

    def get(self, what: str, method: str) -> float | None:
        """A figure, or None."""
        return self.figures.get(f"{what}_{self.name}_{method}")

    def of(self, what: str, method: str) -> float:
        """A figure that must be there; nan for a deviation of a single seed."""
        found = self.get(what, method)
        return math.nan if found is None else found

    def above(self, method: str) -> Gap | None:
        """Over the best plain training of no higher cost."""
        mean, error = self.get("above", method), self.get("error", method)
        return None if mean is None or error is None else Gap(mean, error)

    def against(self, method: str, other: str) -> Gap | None:
        """Test accuracy of one method over another's, seed by seed; None unless both were run."""
        methods = self.details["methods"]
        if method not in methods or other not in methods:
            return None
        mine, theirs = ({run["seed"]: run["test"] or 0.0 for run in methods[m]["runs"]} for m in (method, other))
        differences = [mine[seed] - theirs[seed] for seed in mine if seed in theirs]
        if len(differences) < 2:
            return None
        return Gap(fmean(differences), stdev(differences) / math.sqrt(len(differences)))


def _told(gaps: Mapping[str, Gap]) -> str:
    return ", ".join(f"{name} {gap}" for name, gap in gaps.items())


def _compared(by_regime: Mapping[str, Findings], method: str, other: str) -> dict[str, Gap]:
    found = {name: one.against(method, other) for name, one in by_regime.items()}
    return {name: gap for name, gap in found.items() if gap}


def _question(question: str, gaps: Mapping[str, Gap], better: str, same: str, worse: str) -> str:
    """An answer by how many regimes show a clear difference."""
    if not gaps:
        return f"- **{question}** Not run."
    up = [name for name, gap in gaps.items() if gap.clear and gap.mean > 0]
    down = [name for name, gap in gaps.items() if gap.clear and gap.mean < 0]
    even = [name for name in gaps if name not in (*up, *down)]
    parts = [f"{said} in {', '.join(names)}" for said, names in ((better, up), (same, even), (worse, down)) if names]
    return f"- **{question}** {'; '.join(parts).capitalize()}. In points: {_told(gaps)}."


def verdicts(by_regime: Mapping[str, Findings]) -> str:
    """Answers to the questions, a difference being clear from CLEAR standard errors on."""
    said = [
        _question("Does ADA-GP reach what backpropagation reaches in all epochs?",
                  _compared(by_regime, "ada-gp", "bp-1"), "more", "no clear difference", "less"),
        _question("Do predictions beat leaving the batches out?", _compared(by_regime, "ada-gp", "skip"),
                  "yes", "no clear difference", "no, they do worse"),
        _question("And where two of three batches are predicted?", _compared(by_regime, "ada-gp-2:1", "skip-2:1"),
                  "yes", "no clear difference", "no, they do worse"),
        _question("And where one of three is?", _compared(by_regime, "ada-gp-1:2", "skip-1:2"),
                  "yes", "no clear difference", "no, they do worse"),
        _question("Do predictions beat their own signs at random?", _compared(by_regime, "ada-gp-1:1", "random-1:1"),
                  "yes", "no clear difference", "no, they do worse"),
        _question("Do predictions beat synthetic gradients of outputs (DNI), which cost more?",
                  _compared(by_regime, "ada-gp-1:1", "dni-1:1"), "yes", "no clear difference", "no"),
        _question("Is ADA-GP above plain training of no higher cost?",
                  {n: gap for n, f in by_regime.items() if (gap := f.above("ada-gp"))}, "yes", "on it", "below it"),
        _winners(by_regime),
    ]  # fmt: skip
    return "\n".join(said)


def _winners(by_regime: Mapping[str, Findings]) -> str:
    def is_above(found: Findings, method: str) -> bool:
        gap = found.above(method)
        return gap is not None and gap.clear and gap.mean > 0

    above = {m: [name for name, found in by_regime.items() if is_above(found, m)] for m in _with_gp(by_regime)}
    winners = {method: names for method, names in above.items() if len(names) > 1}
    told = "; ".join(f"`{method}` ({', '.join(names)})" for method, names in winners.items()) or "none"
    return f"- **Which methods are above plain training of no higher cost, clearly, in two regimes or more?** {told}."


def _with_gp(by_regime: Mapping[str, Findings]) -> Sequence[str]:
    there = {method for found in by_regime.values() for method in found.details["methods"]}
    return [name for name, method in METHODS.items() if method.entries and name in there]


def pairs(by_regime: Mapping[str, Findings]) -> str:
    """A table of what is above plain training of no higher cost, by method and regime."""
    rows = [
        (f"`{method}`", *("" if (gap := found.above(method)) is None else f"{gap}" + " *" * gap.clear
                          for found in by_regime.values()))
        for method in _with_gp(by_regime)
    ]  # fmt: skip
    return f"""In points of test accuracy; * where it is more than {CLEAR} standard errors. Empty: not run, or costs
more than plain training for all epochs, or less than for two fifths of them.

{table(("method", *by_regime), rows)}"""
