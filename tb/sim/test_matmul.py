"""GEMMs with activations as filters in the whole machine: their random commands, and refusals of golden and RTL."""

import pytest
from adagp.golden.validate import validate
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import GEMMS
from adagp.spec.operands import filter_pitch
from random_programs import DESIGNS, drawn_commands, is_refused

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


def test_what_the_programs_hold():
    """Filters that lie apart, with and without gaps, in each GEMM, either way around, with strides and C operands."""
    seen = set()
    for made, c in drawn_commands("matmul"):
        if pitch := filter_pitch(c, made.config):
            whole = (c.qb if c.opcode == Opcode.BACKWARD_DATA else c.cb) >= c.c
            seen |= {(c.opcode, pitch > c.r * c.s * c.c), (c.opcode, "swap", c.swap), (c.opcode, "whole", whole)}
            seen |= {(c.opcode, "c_mode", c.c_mode), (c.opcode, "stride", c.stride > 1)}
    for opcode in GEMMS:
        assert {(opcode, gaps) for gaps in (False, True)} <= seen
        assert {(opcode, name, on) for name in ("swap", "stride", "whole") for on in (False, True)} <= seen
        assert {(opcode, "c_mode", mode) for mode in (CMode.NONE, CMode.MASK, CMode.ADD)} <= seen


_ONES = dict.fromkeys(("n", "c", "h", "w", "q", "r", "s", "stride", "oh", "ow", "nb", "yb", "cb", "qb"), 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"c": 3, "cb": 3, "d_pitch": 2}, {"r": 3, "h": 3, "d_pitch": 2}, {"d_pitch": 4, "bias": 1},
        {"q": 64, "qb": 8, "d_pitch": (1 << 24) - 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("opcode", GEMMS)
def test_refusals(opcode, fields):
    """A pitch below the filter's elements, one with biases, and filters of 2^30 bytes are BAD_GEOMETRY, as without
    matmul they aren't; nothing is written."""
    config = DESIGNS["baseline"]
    bad = Command(opcode, {**_ONES, "phase_mask": 15, "out_addr": 4096, **fields})
    is_refused(config, bad, ErrorCode.BAD_GEOMETRY)
    fine = Command(opcode, {**bad.fields, "d_pitch": 0, "bias": 0})
    assert validate(fine, config) == ErrorCode.NONE
