"""What a campaign found, as figures, and as a table by block."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from .choice import Mutant

__all__ = ["figures", "table"]

COLUMNS = ("mutants", "block", "top", "equivalent", "survived")
"""Of the table: how many there are; caught by the block's bench, by the top's; proved equivalent; neither."""


def _result(finding: Mapping) -> str:
    if finding["by"] is not None:
        return "top" if finding["by"] == "top" else "block"
    return "equivalent" if finding.get("proof") else "survived"


def figures(mutants: Iterable[Mutant], findings: Mapping[int, Mapping]) -> tuple[dict, dict]:
    """Figures of finished mutants, and their details: the table, what caught how many, a row for each mutant."""
    rows = [{**mutant.to_dict(), **findings[mutant.number], "result": _result(findings[mutant.number])}
            for mutant in mutants]  # fmt: skip
    blocks: dict[str, dict] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0))
    checks: Counter = Counter()
    for row in rows:
        blocks[row["block"]]["mutants"] += 1
        blocks[row["block"]][row["result"]] += 1
        if row["by"] is not None:
            checks[f"{row['by']}: {row['found'].partition(':')[0]}" if row["by"] == "top" else row["by"]] += 1
    results = Counter(row["result"] for row in rows)
    found = {
        "mutants": len(rows), "mutants_survived": results["survived"], "mutants_equivalent": results["equivalent"],
        "mutants_blocks": len(blocks),
    }  # fmt: skip
    return found, {"blocks": dict(sorted(blocks.items())), "caught_by": dict(checks.most_common()), "mutants": rows}


def table(blocks: Mapping[str, Mapping[str, int]]) -> str:
    """The table by block, in Markdown."""
    lines = [f"| block | {' | '.join(COLUMNS)} |", "|---|" + "--:|" * len(COLUMNS)]
    lines += [f"| {block} | {' | '.join(str(row[name]) for name in COLUMNS)} |" for block, row in blocks.items()]
    total = [str(sum(row[name] for row in blocks.values())) for name in COLUMNS]
    return "\n".join([*lines, f"| all | {' | '.join(total)} |"])
