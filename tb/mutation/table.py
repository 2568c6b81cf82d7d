"""What a campaign found, as figures, and as a table by block."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from .argued import ARGUED
from .blocks import names
from .choice import Mutant

__all__ = ["figures", "table"]

COLUMNS = ("mutants", "block", "top", "equivalent", "argued", "survived")
"""Of the table: how many there are; caught by the block's bench, by the top's; proved equivalent; said to be, with a
reason; neither."""


def _row(mutant: Mutant, said: Mapping[str, str | None], proof: Mapping | None) -> dict:
    """A mutant with the first bench that caught it (of those that were asked), what it found, and the result."""
    by = next((name for name in names(mutant) if said.get(name) is not None), None)
    caught = None if by is None else "top" if by == "top" else "block"
    reason = None if caught or proof else ARGUED.get(mutant.command)
    result = caught or ("equivalent" if proof else "argued" if reason else "survived")
    return {**mutant.to_dict(), "by": by, "found": said.get(by), "proof": proof, "reason": reason, "result": result}


def figures(
    mutants: Iterable[Mutant], findings: Mapping[int, Mapping], proofs: Mapping[int, Mapping | None]
) -> tuple[dict, dict]:
    """Figures of finished mutants, and their details: the table, what caught how many, a row for each mutant.

    ``findings``: what benches said, by number; ``proofs``: how mutants were proved equivalent.
    """
    rows = [_row(mutant, findings[mutant.number], proofs.get(mutant.number)) for mutant in mutants]
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
        "mutants_argued": results["argued"],
        "mutants_blocks": len(blocks),
    }  # fmt: skip
    return found, {"blocks": dict(sorted(blocks.items())), "caught_by": dict(checks.most_common()), "mutants": rows}


def table(blocks: Mapping[str, Mapping[str, int]]) -> str:
    """The table by block, in Markdown."""
    lines = [f"| block | {' | '.join(COLUMNS)} |", "|---|" + "--:|" * len(COLUMNS)]
    lines += [f"| {block} | {' | '.join(str(row[name]) for name in COLUMNS)} |" for block, row in blocks.items()]
    total = [str(sum(row[name] for row in blocks.values())) for name in COLUMNS]
    return "\n".join([*lines, f"| all | {' | '.join(total)} |"])
