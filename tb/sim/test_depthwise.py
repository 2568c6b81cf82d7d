"""Depthwise convolutions in the whole machine: programs of random commands, against the golden model bit by bit."""

import random

import pytest
from adagp.spec.commands import Opcode
from adagp.spec.opcodes import DEPTHWISE, GEMMS
from random_programs import DESIGNS, RandomProgram, same_bits

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


def program(config, draw):
    """Commands of depthwise convolutions of all shapes, strides, tiles, epilogues, between those of other units."""
    maker = RandomProgram(config, draw)
    for opcode in draw.sample([*DEPTHWISE * 3, *GEMMS, Opcode.MAXPOOL, Opcode.AVGPOOL], 12):
        maker.add(opcode)
    return maker


@pytest.mark.parametrize("variant", DESIGNS)
@pytest.mark.parametrize("seed", range(4))
def test_random_commands(variant, seed):
    made = program(DESIGNS[variant], random.Random(f"depthwise {variant} {seed}"))
    same_bits(made, seed)
    assert sum(size for _, size in made.results) > 0


def test_what_the_programs_hold():
    """All three directions, each at strides 1 and 2 with padding, in one tile and in several."""
    seen = set()
    for variant, config in DESIGNS.items():
        for seed in range(4):
            for c in program(config, random.Random(f"depthwise {variant} {seed}")).commands:
                padded, tiled = c.pad_y + c.pad_x > 0, c.nb < c.n or c.cb < c.c or c.yb < c.oh
                seen |= {(c.opcode, c.stride, padded), (c.opcode, "tiles", tiled), (c.opcode, "bias", c.bias)}
    for opcode in DEPTHWISE:
        assert {(opcode, stride, True) for stride in (1, 2)} <= seen
        assert {(opcode, "tiles", tiled) for tiled in (True, False)} <= seen
    assert {(opcode, "bias", bias) for opcode in (DEPTHWISE[0], DEPTHWISE[2]) for bias in (0, 1)} <= seen
