"""Bounds and slopes in the whole machine: their random commands, and refusals of golden model and RTL."""

import pytest
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import DEPTHWISE
from layers import LAYERS
from random_programs import DESIGNS, drawn_commands, is_refused

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


def test_what_the_programs_hold():
    """Bounds and slopes with all uses of C, of GEMMs and pools; bounds below and above the operands' range."""
    seen = set()
    for made, c in drawn_commands("clamps"):
        exponent = made.exponents[c.c_id if c.c_mode == CMode.MASK else c.out_id]
        within = c.bound_mantissa * 2.0 ** (c.bound_exponent - exponent) < 32767
        seen |= {("bound", c.c_mode, within)} if c.bound_mantissa else set()
        seen |= {("slope", c.c_mode, c.relu)} if c.slope else set()
        seen |= {("unit", c.opcode)} if c.bound_mantissa and c.slope == 0 else set()
    for mode in (CMode.NONE, CMode.MASK, CMode.ADD, CMode.SUB):
        assert {("bound", mode, within) for within in (False, True)} <= seen
        assert ("slope", mode, 1) in seen
    assert {("unit", opcode) for opcode in (*LAYERS, *DEPTHWISE)} <= seen


@pytest.mark.parametrize(
    ("variant", "fields"),
    [
        ("baseline", {"c_mode": CMode.ADD_MASK, "slope": 1}), ("max", {"c_mode": CMode.ADD_MASK, "bound_mantissa": 1}),
        ("max", {"predictor": 1, "slope": 1 << 15}), ("low", {"predictor": 1, "bound_mantissa": 1 << 15}),
    ],
)  # fmt: skip
def test_refusals(variant, fields):
    """A bound or a slope in a command that can't have one is BAD_OPCODE, and nothing is written."""
    ones = dict.fromkeys(("n", "c", "h", "w", "q", "r", "s", "stride", "oh", "ow", "nb", "yb", "cb", "qb"), 1)
    bad = Command(Opcode.FORWARD, {**ones, "phase_mask": 15, "out_addr": 4096, **fields})
    is_refused(DESIGNS[variant], bad, ErrorCode.BAD_OPCODE)
