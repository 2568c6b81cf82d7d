"""Stages of the top's bench for blocks that only the generator's switches build."""

import random
from functools import partial

from adagp.sim import IDEAL

from ..robustness.campaign import random_numbers
from ..robustness.malformed import Malformed
from ..support.norm_programs import norm_program
from ..support.random_programs import DRAWS, MEMORY, SEEDS, drawn
from .observations import SEED, SWITCHED, Observations, Open, Stage, work

__all__ = ["STAGES"]

DESIGN = "baseline"
"""The name of the configuration among the designs of random programs."""
NORM = "norm"
MALFORMED = 150


def program(name: str, seed: int, open_device: Open) -> Observations:
    """A random program's memory and exponents, after one batch or two, or a calibration, on ideal or slow memory."""
    made = norm_program(SWITCHED, random.Random(f"mutants {seed}")) if name == NORM else drawn(name, DESIGN, seed)
    device = open_device(memory_bytes=MEMORY, **({"part": IDEAL} if seed == 0 else {"stall": 0.3, "seed": seed}))
    memory, exponents, counters = made.run(device, seed == 3, batches=2 if seed == 2 else 1)
    yield "memory", memory.tobytes()
    yield "exponents", exponents
    yield "counters", counters
    yield from work(device)


def malformed(open_device: Open) -> Observations:
    """Valid and malformed commands of all units."""
    case = Malformed(SWITCHED, open_device.top)
    for index in range(MALFORMED):
        yield f"case {index}", case(index, random_numbers(SEED, "malformed with switches", index))


def _stage(name, run, **more):
    return Stage(name, run, config=SWITCHED, **more)


STAGES = [
    *(_stage(f"{name} {seed}", partial(program, name, seed)) for seed in SEEDS for name in (NORM, *DRAWS)),
    _stage("malformed", malformed, golden=False),
]
"""Those first that catch most for their time."""
