"""Stages of the top's bench for blocks that only the generator's switches build."""

import random
from functools import partial

from adagp.sim import IDEAL
from adagp.spec.commands import CMode, Opcode
from adagp.spec.numerics import SHIFT_MIN

from ..robustness.campaign import random_numbers
from ..robustness.malformed import Malformed
from ..support.norm_programs import NormProgram, norm_program
from ..support.random_programs import DRAWS, MEMORY, SEEDS, RandomProgram, drawn
from .observations import SEED, SWITCHED, Observations, Open, Stage, work

__all__ = ["STAGES"]

DESIGN = "baseline"
"""The name of the configuration among the designs of random programs."""
NORM = "norm"
MALFORMED = 150


def program(name: str, seed: int, open_device: Open) -> Observations:
    """A random program's memory and exponents, after one batch or two, or a calibration, on ideal or slow memory."""
    made = norm_program(SWITCHED, random.Random(f"mutants {seed}")) if name == NORM else drawn(name, DESIGN, seed)
    memory = {"part": IDEAL} if seed == 0 else {"stall": 0.3, "seed": seed}
    yield from _run(made, open_device(memory_bytes=MEMORY, **memory), seed == 3, batches=2 if seed == 2 else 1)


def maxima(open_device: Open) -> Observations:
    """Results of one number, 2^28 shifted by all places that there are: the maximum comes from a single lane's bit."""
    made = NormProgram(SWITCHED, random.Random(SEED))
    lanes = SWITCHED.cols
    layer = {"q": lanes, "qb": lanes} | dict.fromkeys(("n", "c", "h", "w", "r", "s", "oh", "ow", "stride"), 1)
    layer |= {"nb": 1, "yb": 1, "cb": 1, "track": 1}
    x, x_id = made.tensor([1 << 14], 0)
    for lane in range(lanes):
        filters, w_id = made.tensor([((at == lane) << 14, 0) for at in range(lanes)], 0)  # with a bias
        for shift in range(SHIFT_MIN, 29):
            y, y_id = made.tensor([5] * lanes, shift)
            made.add(
                Opcode.FORWARD, **layer, a_addr=x, a_id=x_id, b_addr=filters, b_id=w_id, out_addr=y, out_id=y_id
            )  # fmt: skip
    yield from _run(made, open_device(memory_bytes=MEMORY, part=IDEAL), False)


def bounds(open_device: Open) -> Observations:
    """Gradients masked by outputs that are at their bound or next to it, for bounds that tell each bit."""
    made = NormProgram(SWITCHED, random.Random(SEED))
    lanes, pixels = SWITCHED.cols, 3
    layer = {"n": pixels, "q": lanes, "nb": pixels, "qb": lanes, "track": 1, "c_mode": CMode.MASK}
    layer |= dict.fromkeys(("c", "h", "w", "r", "s", "oh", "ow", "stride", "yb", "cb"), 1)
    x, x_id = made.tensor([1 << 7] * pixels, 0)
    filters, w_id = made.tensor([(1 << 7, 0)] * lanes, 0)
    for bit in range(SWITCHED.operand_width - 1):
        for bound in (1 << 14 | 1 << bit, 0x7FFE & ~(1 << bit)):
            outputs, c_id = made.tensor([[bound + near] * lanes for near in (-1, 0, 1)], 0)
            y, y_id = made.tensor([[5] * lanes] * pixels, 0)
            made.add(
                Opcode.FORWARD, **layer, a_addr=x, a_id=x_id, b_addr=filters, b_id=w_id, c_addr=outputs, c_id=c_id,
                out_addr=y, out_id=y_id, bound_mantissa=bound, bound_exponent=0,
            )  # fmt: skip
    yield from _run(made, open_device(memory_bytes=MEMORY, part=IDEAL), False)


def close(open_device: Open) -> Observations:
    """Pools whose taps differ by little."""
    made = RandomProgram(SWITCHED, random.Random(SEED))
    for _ in range(8):
        made.add(Opcode.MAXPOOL)
    made.data = {address: values % 24 for address, values in made.data.items()}
    yield from _run(made, open_device(memory_bytes=MEMORY, part=IDEAL), False)


def _run(made, device, calibrate, batches=1):
    memory, exponents, counters = made.run(device, calibrate, batches=batches)
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
    _stage("maxima", maxima),
    _stage("bounds", bounds),
    _stage("close", close),
    _stage("malformed", malformed, golden=False),
]
"""Those first that catch most for their time."""
