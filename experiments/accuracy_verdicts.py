"""Answers in sentences, and methods side by side: what ``results/accuracy.json`` says."""

from collections.abc import Callable, Mapping, Sequence

from ..gen.tables import table
from .accuracy_findings import Findings, Gap, clear
from .methods import METHODS

__all__ = ["pairs", "verdicts"]

TOLERANCE = 2
"""Standard errors that a difference must be larger than, where it is looked at alone."""


def _question(question: str, gaps: Mapping[str, Gap], better: str, worse: str) -> str:
    """An answer by how many regimes show a clear difference."""
    if not gaps:
        return f"- **{question}** Not run."
    sure = clear(gaps)
    up = [name for name in gaps if name in sure and gaps[name].mean > 0]
    down = [name for name in gaps if name in sure and gaps[name].mean < 0]
    lost = [name for name, gap in gaps.items() if gap.lost]
    open_ = [name for name in gaps if name not in (*up, *down, *lost)]
    answers = ((better, up), (worse, down), ("undecided", open_), ("undecided, as runs went astray,", lost))
    parts = [f"{said} in {', '.join(names)}" for said, names in answers if names]
    told = ", ".join(f"{name} {gap}" for name, gap in gaps.items())
    return f"- **{question}** {'; '.join(parts).capitalize()}. In points: {told}."


def _against(
    by_regime: Mapping[str, Findings], question: str, method: str, other: str, better="yes", worse="no, they do worse"
) -> str:  # fmt: skip
    found = {name: one.against(method, other) for name, one in by_regime.items()}
    there = {name: gap for name, gap in found.items() if gap}
    return _question(f"{question} (`{method}`, `{other}`)", there, better, worse)


def verdicts(by_regime: Mapping[str, Findings]) -> str:
    """Answers to the questions, see :func:`clear`; each question is a family."""
    above = {name: gap for name, found in by_regime.items() if (gap := found.above("ada-gp"))}
    asked = (
        ("Do predictions beat leaving the batches out, which costs less?", "ada-gp", "skip"),
        ("And where two of three batches are predicted?", "ada-gp-2:1", "skip-2:1"),
        ("And where one of three is?", "ada-gp-1:2", "skip-1:2"),
        ("Do predictions beat their own signs at random, which cost the same?", "ada-gp-1:1", "random-1:1"),
        ("Do predictions beat synthetic gradients of outputs (DNI), which here cost more?", "ada-gp-1:1", "dni-1:1"),
    )
    return "\n".join((
        _against(by_regime, "Does ADA-GP, which costs less, reach what backpropagation reaches in all epochs?",
                 "ada-gp", "bp-1", "more", "less"),
        _question("Is ADA-GP above plain training of no higher cost? (`ada-gp`)", above, "yes", "no, below it,"),
        _raw(by_regime), *(_against(by_regime, *each) for each in asked), _winners(by_regime),
    ))  # fmt: skip


def _raw(by_regime: Mapping[str, Findings]) -> str:
    """What becomes of the paper's predictor without normalised targets."""
    raw = "ada-gp-raw"
    told = [
        f"{name} {found.of('accuracy', raw):.1f} % ({found.lost(raw)} of {len(found._tests(raw))} runs astray)"
        for name, found in by_regime.items() if raw in found.details["methods"]
    ]  # fmt: skip
    return f"- **And with the paper's predictor as it is? (`{raw}`)** {', '.join(told) or 'Not run'}."


def _above(found: Findings, methods: Sequence[str]) -> dict[str, Gap]:
    there = (method for method in methods if method in found.details["methods"])
    return {method: gap for method in there if (gap := found.above(method))}


def _winners(by_regime: Mapping[str, Findings]) -> str:
    surely, perhaps = (_above_in_two(by_regime, are_there) or "none" for are_there in (clear, _beyond_errors))
    return "\n".join((
        f"- **Which methods are above plain training of no higher cost, clearly, in two regimes or more?** {surely}.",
        f"- **And by more than {TOLERANCE} standard errors, as of so many comparisons some are by chance?** {perhaps}.",
    ))  # fmt: skip


def _beyond_errors(gaps: Mapping[str, Gap]) -> set[str]:
    return {method for method, gap in gaps.items() if not gap.lost and abs(gap.mean) > TOLERANCE * gap.error}


def _above_in_two(by_regime: Mapping[str, Findings], are_there: Callable[[Mapping[str, Gap]], set[str]]) -> str:
    """Methods with the regimes in which they are above, of those differences that ``are_there``."""
    methods, above = _with_gp(by_regime), dict[str, list[str]]()
    for name, found in by_regime.items():
        gaps = _above(found, methods)
        for method in are_there(gaps):
            if gaps[method].mean > 0:
                above.setdefault(method, []).append(name)
    winners = [(method, above[method]) for method in methods if len(above.get(method, ())) > 1]
    return "; ".join(f"`{method}` ({', '.join(names)})" for method, names in winners)


def _with_gp(by_regime: Mapping[str, Findings]) -> Sequence[str]:
    there = {method for found in by_regime.values() for method in found.details["methods"]}
    return [name for name, method in METHODS.items() if method.entries and name in there]


def pairs(by_regime: Mapping[str, Findings]) -> str:
    """A table of what is above plain training of no higher cost, by method and regime; a regime is a family."""
    methods = _with_gp(by_regime)
    gaps = {name: gaps for name, found in by_regime.items() if (gaps := _above(found, methods))}
    sure = {name: clear(found) for name, found in gaps.items()}

    def cell(name: str, method: str) -> str:
        gap = gaps[name].get(method)
        return "" if gap is None else f"{gap}" + " *" * (method in sure[name]) + " (lost)" * gap.lost

    rows = [(f"`{method}`", *(cell(name, method) for name in gaps)) for method in methods]
    return f"""In points of test accuracy, with 95 % confidence intervals; * clear, a column being a family. (lost):
runs of the method or of the line went astray, so nothing is said. Empty: not run, or costs more than plain training for
all epochs, or less than the shortest.

{table(("method", *gaps), rows)}"""
