"""What the fates of malformed commands amount to."""

from collections.abc import Mapping

from adagp.spec.commands import Opcode

from .expect import BARRIERS, DECODE

__all__ = ["BEHIND", "shares"]

NO_WORK = {"skipped", Opcode.HEADER.name, *(opcode.name for opcode in BARRIERS)}
"""Fates of commands that were spoilt into something else."""
BEHIND = ("none behind executed", "some behind executed")
"""Commands behind the failing one that might have been executed."""


def shares(outcomes: Mapping[str, int]) -> dict[str, float]:
    """Of all programs, by the fate of the first command spoilt in each: what gets past fetch's checks and still is a
    compute or UPDATE command, which must be half; what is executed; where more than one code is right.

    By what is compared: every byte with one value; some may have any; the error isn't, for a command too much for the
    golden model; commands behind the failing one are, some of which have been executed.
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
