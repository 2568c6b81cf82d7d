"""Findings on a regime from ``results/accuracy.json``: figures, differences with errors, clear differences."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from scipy.stats import t as student

from ....experiments.methods.methods import METHODS
from ....experiments.pareto import best
from ....experiments.regimes import REGIMES

__all__ = ["LEVEL", "Findings", "Gap", "clear", "close"]

LEVEL = 0.05
"""Level of significance, for all comparisons of a family together."""


@dataclass(frozen=True)
class Gap:
    """A mean difference over ``n`` seeds, and its standard error; ``lost``: runs of either side went astray."""

    mean: float
    error: float
    n: int
    lost: bool = False

    @property
    def p(self) -> float:
        """Probability of such a difference by chance, by Student's t."""
        if not self.error:
            return float(not self.mean)
        return float(2 * student.sf(abs(self.mean) / self.error, self.n - 1))

    def __str__(self) -> str:
        half = float(student.ppf(1 - LEVEL / 2, self.n - 1)) * self.error
        return f"{self.mean:+.2f} ± {half:.2f}"


def clear(gaps: Mapping[str, Gap]) -> set[str]:
    """Names of the gaps that differ from 0, by Holm's procedure: the chance of any mistake is LEVEL at most.

    Those with runs that went astray aren't: a mean that one run in five decides is no normal one.
    """
    found: set[str] = set()
    sound = {name: gap for name, gap in gaps.items() if not gap.lost}
    for rank, name in enumerate(sorted(sound, key=lambda name: sound[name].p)):
        if sound[name].p > LEVEL / (len(sound) - rank):
            break
        found.add(name)
    return found


def close(tuning: Sequence[Mapping], lr: float) -> bool:
    """True if another learning rate was worse than ``lr`` by less than a standard error, in runs of both."""
    by_lr: dict[float, dict[int, float]] = {}
    for run in tuning:
        by_lr.setdefault(run["lr"], {})[run["seed"]] = run["validation"] or 0
    mine = by_lr.pop(lr, {})
    others = [[mine[seed] - found[seed] for seed in mine] for found in by_lr.values() if found.keys() == mine.keys()]
    return any(fmean(gaps) < stdev(gaps) / math.sqrt(len(gaps)) for gaps in others if len(gaps) > 1)


@dataclass(frozen=True)
class Findings:
    """A regime's figures, details and provenance, as the bench ``accuracy`` has written them."""

    name: str
    figures: Mapping[str, float]
    details: Mapping[str, Any]
    origin: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> dict[str, "Findings"]:
        """All findings by regime, in their usual order."""
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

    @property
    def current(self) -> bool:
        """True if the regime hasn't changed since it was run."""
        asked = REGIMES.get(self.name)
        settings = {} if asked is None else json.loads(json.dumps(asdict(replace(asked, device=self.regime["device"]))))
        return bool(settings) and all(self.regime.get(name) == value for name, value in settings.items())

    def get(self, what: str, method: str) -> float | None:
        """A figure, or None."""
        return self.figures.get(f"{what}_{self.name}_{method}")

    def of(self, what: str, method: str) -> float:
        """A figure that must be there; nan for a deviation of a single seed."""
        found = self.get(what, method)
        return math.nan if found is None else found

    def lost(self, method: str) -> int:
        """Seeds that went astray: with less than half of the accuracy that plain training has in its median."""
        median_of_plain = median(self.tests("bp-1").values())
        return sum(test < median_of_plain / 2 for test in self.tests(method).values())

    def tests(self, method: str) -> dict[int, float]:
        """Test accuracy by seed; 0 of runs that diverged."""
        return {run["seed"]: run["test"] or 0.0 for run in self.details["methods"][method]["runs"]}

    def above(self, method: str) -> Gap | None:
        """Over the best plain training of no higher cost; ``lost`` also if any of that line was."""
        return self.gap(method, {what: self.get(what, method) for what in ("above", "error")})

    def gap(self, method: str, found: Mapping[str, float | None] | None) -> Gap | None:
        """The gap with the mean ``above`` and its ``error``; None if it isn't known."""
        mean, error = (found or {}).get("above"), (found or {}).get("error")
        if mean is None or error is None:
            return None
        plain = [name for name in self.details["methods"] if not METHODS[name].entries]
        cost, accuracy = ({name: self.of(what, name) for name in plain} for what in ("cost", "accuracy"))
        line = {name for _, name in best(plain, cost, accuracy)}
        return Gap(mean, error, len(self.tests(method)), any(map(self.lost, (method, *line))))

    def gp_share(self, method: str) -> float:
        """Share of a method's batches that are GP batches."""
        counts = [run["batches"] for run in self.details["methods"][method]["runs"]]
        return sum(count.get("gp", 0) for count in counts) / sum(sum(count.values()) for count in counts)

    def against(self, method: str, other: str, elsewhere: "Findings | None" = None) -> Gap | None:
        """Test accuracy of one method over another's, or that of a regime ``elsewhere``, seed by seed; None unless both
        were run."""
        there = elsewhere or self
        if method not in self.details["methods"] or other not in there.details["methods"]:
            return None
        mine, theirs = self.tests(method), there.tests(other)
        differences = [mine[seed] - theirs[seed] for seed in mine if seed in theirs]
        if len(differences) < 2:
            return None
        error = stdev(differences) / math.sqrt(len(differences))
        return Gap(fmean(differences), error, len(differences), self.lost(method) + there.lost(other) > 0)
