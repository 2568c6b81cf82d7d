"""Depthwise convolutions in the whole machine: what the programs of random commands hold of them."""

from adagp.spec.opcodes import DEPTHWISE
from random_programs import drawn_commands


def test_what_the_programs_hold():
    """All three directions, each at strides 1 and 2 with padding, in one tile and in several."""
    seen = set()
    for _, c in drawn_commands("depthwise"):
        padded, tiled = c.pad_y + c.pad_x > 0, c.nb < c.n or c.cb < c.c or c.yb < c.oh
        seen |= {(c.opcode, c.stride, padded), (c.opcode, "tiles", tiled), (c.opcode, "bias", c.bias)}
    for opcode in DEPTHWISE:
        assert {(opcode, stride, True) for stride in (1, 2)} <= seen
        assert {(opcode, "tiles", tiled) for tiled in (True, False)} <= seen
    assert {(opcode, "bias", bias) for opcode in (DEPTHWISE[0], DEPTHWISE[2]) for bias in (0, 1)} <= seen
