"""Shares of outcomes: of malformed commands, and of random networks with predicted gradients."""

from collections.abc import Callable, Mapping

from adagp.spec.commands import Opcode
from adagp.spec.schedule import SOURCES

from .expect import BARRIERS, DECODE

__all__ = ["BEHIND", "network_shares", "shares"]

NO_WORK = {"skipped", Opcode.HEADER.name, *(opcode.name for opcode in BARRIERS)}
"""Fates of commands that were spoilt into something else."""
BEHIND = ("none behind executed", "some behind executed")
"""Commands after the failing one that might have been executed."""


def shares(outcomes: Mapping[str, int]) -> dict[str, float]:
    """Shares of programs by the fate of the first spoilt command, and by the strictness of the comparison.

    By fate: commands that pass fetch's checks and are still compute or UPDATE commands (at least half, or it raises
    AssertionError), commands that are executed, and commands for which more than one code is right.

    By comparison: each byte has one right value; some bytes may have any value; the error isn't compared, because the
    command is too large for the golden model; commands after the failing one are compared; some of them were executed.
    """
    total = sum(outcomes.values())

    def share(counts):
        return round(sum(number for fate, number in outcomes.items() if counts(fate.split(", "))) / total, 4)

    halted = NO_WORK | {code.name for code in DECODE}
    passing = share(lambda fate: fate[0] not in halted)
    assert passing >= 0.5, f"only {passing:.0%} of the commands get past fetch's checks"
    return {
        "share_passing_decode": passing,
        "share_executed": share(lambda fate: fate[0] == "executed"),
        "share_either": share(lambda fate: fate[0].startswith("either")),
        "share_compared_exactly": share(lambda fate: not {*BEHIND, "in part", "freely"} & set(fate)),
        "share_compared_freely": share(lambda fate: "freely" in fate),
        "share_error_not_compared": share(lambda fate: "error not compared" in fate),
        "share_compared_behind": share(lambda fate: bool(set(BEHIND) & set(fate))),
        "share_executed_behind": share(lambda fate: BEHIND[True] in fate),
    }


def network_shares(outcomes: Mapping[str, int]) -> dict[str, float]:
    """Shares of all networks: those that ran GP batches, in all and by source; those whose gate stayed shut.

    Raises AssertionError unless GP batches are the rule: at least three of four networks with each source ran some.
    """

    def count(counts: Callable[[list[str]], bool]) -> int:
        return sum(number for fate, number in outcomes.items() if counts(fate.split(", ")))

    def runs_gp(fate: list[str]) -> bool:
        return len(fate) > 1 and fate[-1] != "without GP"

    total = sum(outcomes.values())
    found = {
        "share_with_gp": count(runs_gp),
        "share_gate_shut": count(lambda fate: "gate shut" in fate),
        "share_not_built": count(lambda fate: len(fate) == 1),
    }
    for source in SOURCES:
        drawn = count(lambda fate, source=source: source in fate)
        if not drawn:
            continue
        found[f"share_gp_{source}"] = gp = count(lambda fate, source=source: source in fate and runs_gp(fate))
        assert gp >= 0.75 * drawn, f"only {gp} of {drawn} networks with the source {source} ran a GP batch"
    return {name: round(number / total, 4) for name, number in found.items()}
