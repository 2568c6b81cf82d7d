"""Figures of designs beside the paper's: what each design adds to its own baseline, and where the results come from."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...spec.config import VARIANTS
from .figures import where
from .reference import table

__all__ = ["NOT_MEASURED", "Results", "change", "compared", "number", "over_the_paper_s"]

NOT_MEASURED, NOT_GIVEN = "not measured", "not given"


@dataclass(frozen=True)
class Results:
    """Those that there are in ``folder``, as of ``now``, and of ``flows`` for those that it names."""

    folder: Path
    now: Mapping[str, str]
    flows: Mapping[str, str]

    def read(self, name: str) -> dict | None:
        """All of ``NAME.json``, None where it isn't there."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def designs(self, name: str) -> dict[str, dict]:
        """Details by design, in their usual order; none where there are no results, ValueError without a baseline."""
        found = self.read(name)
        if found is None:
            return {}
        designs = {design["variant"]: design for design in found["details"]["designs"]}
        if "baseline" not in designs:
            raise ValueError(f"{name}.json has no baseline, only {', '.join(designs)}: nothing to compare with")
        return {variant: designs[variant] for variant in VARIANTS if variant in designs}

    def of(self, name: str, value: Callable[[dict], float]) -> dict[str, float]:
        """A figure by design."""
        return {variant: value(design) for variant, design in self.designs(name).items()}

    def origins(self, *names: str) -> str:
        """A line for each result: where it comes from, or the session that measures it."""
        lines = []
        for name in names:
            found = self.read(name)
            if found:
                lines.append(where(found["provenance"], self.now, self.flows.get(name), name))
            else:
                lines.append(f"{name}: not measured yet; `nox -s bench_{name}` writes `results/{name}.json`.")
        return "\n\n".join(lines)


def number(value: float, sign: str = "") -> str:
    """With thousands separators, floats to four digits; ``sign`` is "+" for changes."""
    sign = sign if value else ""
    return f"{value:{sign},}" if isinstance(value, int) else f"{value:{sign},.4g}"


def change(values: Mapping[str, float], variant: str) -> tuple[str, str]:
    """Difference of a design to the baseline, also in percent; blank where it isn't known."""
    if variant == "baseline" or not {variant, "baseline"} <= set(values):
        return "", ""
    base = values["baseline"]
    more = values[variant] - base
    return number(more, "+"), f"{100 * more / base:{'+' if more else ''},.1f}" if base else ""


def compared(rows: Iterable[tuple[str, Mapping[str, float], Mapping[str, float]]]) -> str:
    """A table of quantities by design: name, ours, the paper's."""
    cells = []
    for name, ours, paper in rows:
        for variant in VARIANTS:
            own = number(ours[variant]) if variant in ours else NOT_MEASURED
            other = number(paper[variant]) if variant in paper else NOT_GIVEN
            cells.append((name, variant, own, *change(ours, variant), other, *change(paper, variant)))
    return table(("", "design", "ours", "added", "added, %", "paper", "added", "added, %"), cells)


def over_the_paper_s(rows: Iterable[tuple[str, Mapping[str, float], Mapping[str, float]]]) -> str:
    """A table of what designs add to the baseline, over what the paper's add; where one of both adds none, both."""

    def cell(ours: Mapping[str, float], paper: Mapping[str, float], variant: str) -> str:
        if not {variant, "baseline"} <= set(ours):
            return NOT_MEASURED
        mine, theirs = (values[variant] - values["baseline"] for values in (ours, paper))
        return f"{mine / theirs:.2f}" if mine > 0 < theirs else f"{number(mine, '+')} to {number(theirs, '+')}"

    cells = [
        (name, *(cell(ours, paper, variant) for variant in VARIANTS[1:]))
        for name, ours, paper in rows if ours and "baseline" in paper
    ]  # fmt: skip
    return table(("added, ours over the paper's", *VARIANTS[1:]), cells)
