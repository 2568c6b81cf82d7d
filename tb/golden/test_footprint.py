"""Bytes that a GEMM touches whose filters lie apart."""

from dataclasses import replace

import pytest
from adagp.golden.footprint import Runs, reads, writes
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.presets import preset

CONFIG = replace(preset("tiny"), matmul=True)
FIELDS = {
    "n": 1, "h": 2, "w": 1, "c": 3, "oh": 2, "ow": 1, "q": 4, "r": 1, "s": 1, "stride": 1, "d_pitch": 5,
    "a_addr": 0x100, "b_addr": 0x200, "c_addr": 0x300, "out_addr": 0x400, "c_mode": CMode.ADD,
}  # fmt: skip


def test_filters():
    """Four filters of three operands, ten bytes apart; without matmul the pitch means nothing."""
    apart = Runs(0x200, 6, 4, 10)
    for opcode in (Opcode.FORWARD, Opcode.BACKWARD_DATA):
        command = Command(opcode, FIELDS)
        assert reads(command, CONFIG, 0x100)["b"] == apart
        assert reads(command, replace(CONFIG, matmul=False), 0x100)["b"] == Runs(0x200, 6, 4, 8)
    command = Command(Opcode.BACKWARD_WEIGHT, FIELDS)
    assert writes(command, CONFIG)["out"] == replace(apart, address=0x400)
    assert reads(command, CONFIG, 0x100)["c"] == replace(apart, address=0x300)


@pytest.mark.parametrize("opcode", [Opcode.FORWARD, Opcode.BACKWARD_DATA])
def test_with_operand_d(opcode):
    """The pitch is operand D's then, and filters lie as a layer's."""
    command = Command(opcode, {**FIELDS, "c_mode": CMode.ADD_MASK, "d_addr": 0x500})
    found = reads(command, CONFIG, 0x100)
    assert found["b"] == Runs(0x200, 6, 4, 8) and found["d"].pitch == 10
