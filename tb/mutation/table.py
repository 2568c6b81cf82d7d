"""A campaign's findings as figures, and as a table by block."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from .finding import Finding
from .invariants import INVARIANTS

__all__ = ["figures", "table"]

COLUMNS = ("mutants", "no bench", "block", "top", "equivalent", "argued", "survived")
"""Columns of the table: mutants in all, and in no block that has a bench; caught by the block's bench, by the
top's; proved equivalent; not proved but argued to be; neither."""


def figures(findings: Iterable[Finding]) -> tuple[dict, dict]:
    """Figures of mutants, and their details: the table, what caught how many and how, a row for each mutant.

    ``mutants_equivalent_given``: those of ``mutants_equivalent`` whose proof needs invariants, which are ``assumed``.
    ``mutants_unproved``: those that are argued to be equivalent, or proved with an invariant that no formal job proves.
    """
    rows = [finding.row() for finding in findings]
    blocks: dict[str, dict] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0))
    benches: Counter = Counter()
    for row in rows:
        blocks[row["block"]]["mutants"] += 1
        blocks[row["block"]]["no bench"] += row["block_bench"] == "none"
        blocks[row["block"]][row["result"]] += 1
        if row["by"] is not None:
            benches[f"{row['by']}: {row['found'].partition(':')[0]}" if row["by"] == "top" else row["by"]] += 1
    results = Counter(row["result"] for row in rows)
    kinds = Counter(row["caught_by"] for row in rows if row["caught_by"])
    found = {
        "mutants": len(rows), "mutants_blocks": len(blocks),
        "mutants_with_block_bench": sum(row["block_bench"] != "none" for row in rows),
        "mutants_caught_by_block": results["block"], "mutants_caught_by_top": results["top"],
        "mutants_equivalent": results["equivalent"],
        "mutants_equivalent_given": sum("given" in (row["proof"] or {}).get("how", "").split() for row in rows),
        "mutants_argued": results["argued"], "mutants_unproved": results["argued"] + sum(map(_assumes, rows)),
        "mutants_survived": results["survived"],
    }  # fmt: skip
    details = {
        "blocks": dict(sorted(blocks.items())), "benches": dict(benches.most_common()),
        "caught_by": dict(kinds.most_common()),
        "assumed": {str(one): f"{one.why}{one.job and f' (formal job {one.job})'}" for one in INVARIANTS},
        "mutants": rows,
    }  # fmt: skip
    return found, details


def _assumes(row):
    """True if a mutant's proof needs an assumption that is only argued."""
    how = (row["proof"] or {}).get("how", "")
    return any(str(one) in how for one in INVARIANTS if not one.job)


def table(blocks: Mapping[str, Mapping[str, int]]) -> str:
    """The table by block, in Markdown."""
    lines = [f"| block | {' | '.join(COLUMNS)} |", "|---|" + "--:|" * len(COLUMNS)]
    lines += [f"| {block} | {' | '.join(str(row[name]) for name in COLUMNS)} |" for block, row in blocks.items()]
    total = [str(sum(row[name] for row in blocks.values())) for name in COLUMNS]
    return "\n".join([*lines, f"| all | {' | '.join(total)} |"])
