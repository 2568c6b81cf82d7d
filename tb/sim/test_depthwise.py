"""Depthwise convolutions in the whole machine: programs of random commands, against the golden model bit by bit."""

import contextlib
import random
from dataclasses import replace

import numpy as np
import pytest
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.sim import IDEAL
from adagp.spec.commands import Opcode
from adagp.spec.opcodes import DEPTHWISE, GEMMS
from adagp.spec.presets import preset
from random_programs import MEMORY, RandomProgram

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first

TINY = replace(preset("tiny"), depthwise=True, n_tensors=512, n_filters=512)
CONFIGS = {
    "baseline": TINY,
    "low": replace(TINY, name="wide", rows=6, cols=3, variant="low"),
    "efficient": replace(TINY, name="narrow", rows=3, cols=5, variant="efficient"),
    "max": replace(TINY, variant="max"),
}


def program(config, draw):
    """Commands of depthwise convolutions of all shapes, strides, tiles, epilogues, between those of other units."""
    maker = RandomProgram(config, draw)
    for opcode in draw.sample([*DEPTHWISE * 3, *GEMMS, Opcode.MAXPOOL, Opcode.AVGPOOL], 12):
        maker.add(opcode)
    return maker


@pytest.mark.parametrize("variant", CONFIGS)
@pytest.mark.parametrize("seed", range(4))
def test_random_commands(variant, seed):
    """On an ideal memory (seed 0), on one that stalls at random, and in calibration (seed 3)."""
    print(f"seed {seed}")
    config = CONFIGS[variant]
    maker = program(config, random.Random(f"depthwise {variant} {seed}"))
    calibrate = seed == 3
    expected = maker.run(GoldenDevice(config, MEMORY), calibrate)
    memory = {"part": IDEAL} if seed == 0 else {"stall": 0.3, "seed": seed}
    with contextlib.closing(SimDevice(config, memory_bytes=MEMORY, limit=10_000_000, **memory)) as device:
        found = maker.run(device, calibrate)
    wrong = np.flatnonzero(found[0] != expected[0])
    assert wrong.size == 0, f"{wrong.size} bytes differ, the first at {wrong[0]}"
    assert found[1:] == expected[1:]
    assert sum(size for _, size in maker.results) > 0 and expected[2]["commands"] == 15


def test_what_the_programs_hold():
    """All three directions, each at strides 1 and 2 with padding, in one tile and in several."""
    seen = set()
    for variant, config in CONFIGS.items():
        for seed in range(4):
            for c in program(config, random.Random(f"depthwise {variant} {seed}")).commands:
                padded, tiled = c.pad_y + c.pad_x > 0, c.nb < c.n or c.cb < c.c or c.yb < c.oh
                seen |= {(c.opcode, c.stride, padded), (c.opcode, "tiles", tiled), (c.opcode, "bias", c.bias)}
    for opcode in DEPTHWISE:
        assert {(opcode, stride, True) for stride in (1, 2)} <= seen
        assert {(opcode, "tiles", tiled) for tiled in (True, False)} <= seen
    assert {(opcode, "bias", bias) for opcode in (DEPTHWISE[0], DEPTHWISE[2]) for bias in (0, 1)} <= seen
