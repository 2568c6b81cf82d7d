"""Depthwise convolutions in the whole machine: what the programs of random commands hold of them."""

from adagp.spec.commands import Opcode
from adagp.spec.opcodes import DEPTHWISE
from random_programs import drawn_commands


def test_what_the_programs_hold():
    """All directions at strides 1 and 2 with padding, in one tile and in several; windows that share columns or not."""
    seen = set()
    for _, c in drawn_commands("depthwise"):
        padded, tiled = c.pad_y + c.pad_x > 0, c.nb < c.n or c.cb < c.c or c.yb < c.oh
        stride = 1 if c.opcode == Opcode.DEPTHWISE_BACKWARD_DATA else c.stride
        together = c.s if 2 <= c.s <= 3 and stride < c.s else 0  # windows side by side
        seen |= {(c.opcode, "columns", together), (c.opcode, "lanes left", c.c % 4 > 0), (c.opcode, "kernel", c.s)}
        if c.opcode == Opcode.DEPTHWISE_BACKWARD_WEIGHT and (c.nb < c.n or c.yb < c.oh):
            seen.add(("kept", together))
        seen |= {(c.opcode, c.stride, padded), (c.opcode, "tiles", tiled), (c.opcode, "bias", c.bias)}
    for opcode in DEPTHWISE:
        assert {(opcode, stride, True) for stride in (1, 2)} <= seen
        assert {(opcode, "tiles", tiled) for tiled in (True, False)} <= seen
        assert {(opcode, "columns", together) for together in (0, 2, 3)} <= seen
        assert {(opcode, "lanes left", True), (opcode, "kernel", 4)} <= seen
    assert {("kept", together) for together in (0, 2, 3)} <= seen
    assert {(opcode, "bias", bias) for opcode in (DEPTHWISE[0], DEPTHWISE[2]) for bias in (0, 1)} <= seen
