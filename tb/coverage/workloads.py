"""What runs for coverage: the workloads of the top's tests, as pieces that can run apart."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from adagp.host.sim_device import SimDevice

from ..host.test_bit_exact import NETWORKS, test_simulation_equals_golden
from ..mutation.seen import CONFIG, SEED, Stage
from ..mutation.stages import STAGES
from ..robustness.campaign import Kind, random_numbers
from ..robustness.kinds import KINDS
from ..robustness.networks import Networks

__all__ = ["PIECES", "Piece"]

LIMIT = 1 << 24
"""Cycles after which a device of a stage counts as hung."""

CASES = {"random_commands": (300, 600, 900), "axi_faults": (40, 80), "resets": (20, 40), "random_networks": (0, 10)}
"""Cases of the robustness campaigns beside those that are stages, from and to, a piece for each two numbers."""


@dataclass(frozen=True)
class Piece:
    """A workload; ``run`` raises if the accelerator doesn't do what it must."""

    name: str
    run: Callable[[], None]


def _stage(stage: Stage) -> None:
    """A stage of the mutation tests' bench on the intact accelerator, where its observations are judged."""
    devices: list[SimDevice] = []

    def close():
        while devices:
            devices.pop().close()

    def open_device(**options):
        close()
        devices.append(SimDevice(CONFIG, limit=LIMIT, **options))
        return devices[-1]

    open_device.top = None
    try:
        deque(stage.run(open_device), maxlen=0)
    finally:
        close()


def _cases(kind: Kind, start: int, end: int) -> None:
    """Cases of a robustness campaign."""
    case = Networks(shares={CONFIG.name: 1.0}) if kind.open is Networks else kind.open(None)
    for index in range(start, end):
        case(index, random_numbers(SEED, kind.name, index))


def _pieces() -> Iterator[Piece]:
    for stage in STAGES:
        yield Piece(stage.name, partial(_stage, stage))
    for name in NETWORKS:
        for stall in (0.0, 0.3):
            yield Piece(f"train {name} {stall}", partial(test_simulation_equals_golden, name, CONFIG.name, stall))
    for name, ends in CASES.items():
        for start, end in pairwise(ends):
            yield Piece(f"{name} {start}", partial(_cases, KINDS[name], start, end))


PIECES = list(_pieces())
