"""Workloads of coverage: those that mutants of the top meet, as pieces that can run apart."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from adagp.host.devices.simulated import SimDevice
from adagp.spec.commands import Opcode
from adagp.spec.numerics import EXP_MAX

from ..mutation.observations import MEMORIES, SEED, Observations, Open, Stage, difference
from ..mutation.programs import Maker, run
from ..mutation.stages import STAGES

__all__ = ["PIECES", "Piece", "judge"]

LIMIT = 1 << 24
"""Cycles after which a device of a stage counts as hung."""


@dataclass(frozen=True)
class Piece:
    """A workload.

    ``run`` raises if the accelerator's results are wrong, where the golden model or the workload itself can tell.
    ``source``: the source of coverage to which its counts belong.
    """

    source = "top"

    name: str
    run: Callable[[], object]


def _observe(stage: Stage) -> list[tuple[str, object]]:
    """Observations of the intact accelerator in a stage of the mutation tests' bench."""
    devices: list[SimDevice] = []

    def close():
        while devices:
            devices.pop().close()

    def open_device(**options):
        close()
        devices.append(SimDevice(stage.config, limit=LIMIT, **options))
        return devices[-1]

    open_device.top = None
    try:
        return list(stage.run(open_device))
    finally:
        close()


def _highest(open_device: Open) -> Observations:
    """A layer with the largest exponents: no entry can hold the exponent that its results need."""
    draw = random.Random(SEED)
    maker = Maker(draw)
    maker.layer(opcode=Opcode.FORWARD, track=1)
    maker.exponents = dict.fromkeys(maker.exponents, (EXP_MAX, None))
    yield from run(maker, draw, open_device, MEMORIES["ideal"])


def judge(stage: Stage) -> None:
    """Run a stage on the intact accelerator; raises AssertionError if it differs from the golden model."""
    seen = _observe(stage)
    assert seen and (wrong := difference(stage, seen)) is None, f"{stage.name}: {wrong}"


PIECES = [Piece(stage.name, partial(judge, stage)) for stage in (*STAGES, Stage("highest exponents", _highest))]
