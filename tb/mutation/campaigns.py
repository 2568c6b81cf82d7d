"""The first cases of the robustness campaigns, as stages."""

from functools import partial

from ..robustness.campaign import random_numbers
from ..robustness.kinds import KINDS
from .observations import SEED, Observations, Open, Stage

__all__ = ["CASES", "cases", "stages"]

CASES = {"random_commands": 300, "axi_faults": 40, "resets": 20}
"""Cases to run of each campaign."""


def cases(name: str, count: int, open_device: Open) -> Observations:
    """The first ``count`` cases of a campaign."""
    kind = KINDS[name]
    case = kind.open(open_device.top)
    for index in range(count):
        yield f"case {index}", case(index, random_numbers(SEED, kind.name, index))


def stages() -> list[Stage]:
    """A stage for each campaign of ``CASES``."""
    return [Stage(name, partial(cases, name, count), golden=False) for name, count in CASES.items()]
