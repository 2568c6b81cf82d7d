"""What runs for coverage: the workloads of the top's tests, as pieces that can run apart."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from adagp.host.golden_device import GoldenDevice
from adagp.host.sim_device import SimDevice
from adagp.spec.commands import Opcode
from adagp.spec.numerics import EXP_MAX

from ..host.test_bit_exact import NETWORKS, test_simulation_equals_golden
from ..mutation.programs import Maker, run
from ..mutation.seen import CONFIG, MEMORIES, SEED, TIMED, Observations, Open, Stage
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
    """A workload, one of ``source``; ``run`` raises if the accelerator doesn't do what it must."""

    name: str
    source: str
    run: Callable[[], object]


def _observe(stage: Stage) -> list[tuple[str, object]]:
    """What is seen of the intact accelerator in a stage of the mutation tests' bench, where it is judged."""
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
        return list(stage.run(open_device))
    finally:
        close()


def _highest(open_device: Open) -> Observations:
    """A layer of the largest exponents there are: no entry can hold the one that its results ask for."""
    draw = random.Random(SEED)
    maker = Maker(draw)
    maker.layer(opcode=Opcode.FORWARD, track=1)
    maker.exponents = dict.fromkeys(maker.exponents, (EXP_MAX, None))
    yield from run(maker, draw, open_device, MEMORIES["ideal"])


def _against_golden(stage: Stage) -> None:
    """A stage that the mutation tests haven't got, on accelerator and golden model."""
    seen = [pair for pair in _observe(stage) if not pair[0].startswith(TIMED)]
    assert seen == list(stage.run(lambda memory_bytes, **_: GoldenDevice(CONFIG, memory_bytes)))


def _cases(kind: Kind, start: int, end: int) -> None:
    """Cases of a robustness campaign."""
    case = Networks(shares={CONFIG.name: 1.0}) if kind.open is Networks else kind.open(None)
    for index in range(start, end):
        case(index, random_numbers(SEED, kind.name, index))


def _pieces() -> Iterator[Piece]:
    for stage in STAGES:
        yield Piece(stage.name, "stages", partial(_observe, stage))
    yield Piece("highest exponents", "stages", partial(_against_golden, Stage("highest exponents", _highest)))
    for name in NETWORKS:
        for stall in (0.0, 0.3):
            yield Piece(
                f"train {name} {stall}", "train", partial(test_simulation_equals_golden, name, CONFIG.name, stall)
            )
    for name, ends in CASES.items():
        for start, end in pairwise(ends):
            yield Piece(f"{name} {start}", name, partial(_cases, KINDS[name], start, end))


PIECES = list(_pieces())
