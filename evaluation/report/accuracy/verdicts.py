"""Answers in sentences, and methods side by side: what ``results/accuracy.json`` says."""

from collections.abc import Container, Mapping, Sequence

from ....experiments.methods.methods import METHODS
from ..reference import table
from .findings import LEVEL, Findings, Gap, clear

__all__ = ["count_of_verdicts", "in_a_sentence", "pairs", "verdicts"]

SIDE_BY_SIDE = 5
"""Regimes in a table: as many as a screen is wide."""


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


def count_of_verdicts(by_regime: Mapping[str, Findings]) -> tuple[int, int, int]:
    """Regimes with ADA-GP clearly below plain training of no higher cost, clearly above it, and undecided."""
    gaps = _above_plain(by_regime)
    sure = clear(gaps)
    above, below = (sum((gaps[name].mean > 0) is side for name in sure) for side in (True, False))
    return below, above, len(gaps) - len(sure)


def in_a_sentence(by_regime: Mapping[str, Findings]) -> str:
    """The verdict on ADA-GP."""
    below, above, undecided = count_of_verdicts(by_regime)
    n_regimes = below + above + undecided
    return f"""Of {n_regimes} regimes ADA-GP is clearly below plain training of no higher cost in {below}, clearly above
it in {above}, and undecided in {undecided}. A regime is undecided if its difference isn't clear, even if its interval
leaves out 0."""


def _above_plain(by_regime: Mapping[str, Findings]) -> dict[str, Gap]:
    return {name: gap for name, found in by_regime.items() if (gap := found.above("ada-gp"))}


def verdicts(by_regime: Mapping[str, Findings]) -> str:
    """Answers to the questions, see :func:`clear`; each question is a family."""
    above = _above_plain(by_regime)
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
        _raw(by_regime), *(_against(by_regime, *each) for each in asked), _winners(by_regime), *_smaller(by_regime),
    ))  # fmt: skip


def _raw(by_regime: Mapping[str, Findings]) -> str:
    """The accuracy of the paper's predictor without normalised targets."""
    raw = "ada-gp-raw"
    told = [
        f"{name} {found.of('accuracy', raw):.1f} % ({found.lost(raw)} of {len(found.tests(raw))} runs astray)"
        for name, found in by_regime.items() if raw in found.details["methods"]
    ]  # fmt: skip
    return f"- **And with the paper's predictor as it is? (`{raw}`)** {', '.join(told) or 'Not run'}."


def _smaller(by_regime: Mapping[str, Findings]) -> Sequence[str]:
    """Verdict on smaller images in GP batches against smaller images alone; empty before both were run."""
    whole, small = map(by_regime.get, ("cifar32-steep", "cifar16-steep"))
    if whole is None or small is None or (gap := whole.against("coarse", "bp-1", small)) is None:
        return ()
    question = "Do smaller images in GP batches beat plain training with smaller images alone, for as many MACs?"
    answer = "Undecided" if not clear({small.name: gap}) else "Yes" if gap.mean > 0 else "No, they do worse"
    return (f"- **{question} (`coarse` in {whole.name}, `bp-1` in {small.name})** {answer}. In points: {gap}.",)


def _above(found: Findings, methods: Sequence[str]) -> dict[str, Gap]:
    there = (method for method in methods if method in found.details["methods"])
    return {method: gap for method in there if (gap := found.above(method))}


def _winners(by_regime: Mapping[str, Findings]) -> str:
    """Also differences that are looked at one by one, and how many of them chance makes."""
    methods = _with_gp(by_regime)
    gaps = {name: _above(found, methods) for name, found in by_regime.items()}
    sure, alone = (
        {name: {method: gap for method, gap in found.items() if method in which(found)} for name, found in gaps.items()}
        for which in (clear, _alone)
    )
    n_all = sum(not gap.lost for found in gaps.values() for gap in found.values())
    n_above = sum(gap.mean > 0 for found in alone.values() for gap in found.values())
    n_below = sum(map(len, alone.values())) - n_above
    return "\n".join((
        "- **Which methods are above plain training of no higher cost, clearly?** In two regimes or more:"
        f" {_winning(sure, range(2, 1 + len(gaps)))}. In one: {_winning(sure, (1,))}.",
        f"- **And if each difference is looked at alone, at a level of {LEVEL:.0%}?** {n_above} of {n_all} are above"
        f" and {n_below} below; were there no differences, chance would make {n_all * LEVEL / 2:.1f} of each. Above:"
        f" {_winning(alone, range(1, 1 + len(gaps)))}.",
    ))  # fmt: skip


def _alone(gaps: Mapping[str, Gap]) -> set[str]:
    return {name for name, gap in gaps.items() if not gap.lost and gap.p < LEVEL}


def _winning(gaps: Mapping[str, Mapping[str, Gap]], counts: Container[int]) -> str:
    """Methods that are above in so many regimes, with these regimes and those in which they are below."""
    told = []
    for method in METHODS:
        mine = {name: found[method].mean for name, found in gaps.items() if method in found}
        above, below = ([name for name, mean in mine.items() if (mean > 0) is side] for side in (True, False))
        if above and len(above) in counts:
            told.append(f"`{method}` ({', '.join(above)}{'; below it in ' * bool(below)}{', '.join(below)})")
    return "; ".join(told) or "none"


def _with_gp(by_regime: Mapping[str, Findings]) -> Sequence[str]:
    there = {method for found in by_regime.values() for method in found.details["methods"]}
    return [name for name, method in METHODS.items() if method.entries and name in there]


def pairs(by_regime: Mapping[str, Findings]) -> str:
    """Tables of differences to plain training of no higher cost, by method and regime; a regime is a family."""
    methods = _with_gp(by_regime)
    gaps = {name: gaps for name, found in by_regime.items() if (gaps := _above(found, methods))}
    sure = {name: clear(found) for name, found in gaps.items()}

    def cell(name: str, method: str) -> str:
        gap = gaps[name].get(method)
        return "" if gap is None else f"{gap}" + " *" * (method in sure[name]) + " (lost)" * gap.lost

    tables = [
        table(("method", *some), [(f"`{method}`", *(cell(name, method) for name in some)) for method in methods])
        for some in (list(gaps)[first : first + SIDE_BY_SIDE] for first in range(0, len(gaps), SIDE_BY_SIDE))
    ]
    together = "\n\n".join(tables)
    return f"""Differences are in points of test accuracy, with {1 - LEVEL:.0%} confidence intervals. An asterisk marks
a clear difference. A column is a family here, so other differences than in *In short* may be clear. (lost): runs of the
method or of the line went astray, so the table makes no claim. A field is empty if the method was not run, or if its
cost is above that of plain training for all epochs or below that of the shortest.

{together}"""
