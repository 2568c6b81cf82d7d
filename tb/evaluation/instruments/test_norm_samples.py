"""Tables of batch norm's single commands: they are sums of numbers, and constants of such sums."""

import numpy as np
from adagp.evaluation.instruments.norm_samples import norm_exponents, norm_operands
from adagp.golden.batch_norm import unpack_sums
from adagp.golden.channel_tables import unpack_rows, unpack_state
from adagp.spec.commands import Command, Opcode
from adagp.spec.norm import FORWARD_ROW

SHAPE = {"n": 8, "c": 5, "h": 40, "w": 40, "a_id": 3, "b_id": 4}
COUNTED = 8 * 40 * 40 // (1 << 12) * (1 << 12)
"""Values of a channel, in whole draws."""
DEVIATION = 300


def given(opcode):
    return norm_operands(Command(opcode, SHAPE), np.random.default_rng(1))


def test_the_sums_are_those_of_numbers():
    tables = given(Opcode.NORM_CONSTANTS)
    first, second = unpack_sums(tables["e"])
    deviation = np.sqrt(second / COUNTED - (first / COUNTED) ** 2)
    assert (abs(deviation / DEVIATION - 1) < 0.05).all()
    assert all(state.variance.mantissa for state in unpack_state(tables["c"]))


def test_the_backward_constants_are_those_of_a_forward_pass():
    rows = unpack_rows(FORWARD_ROW, given(Opcode.NORM_BACKWARD)["b"])
    inverse = np.array([row["inverse"] * 2.0 ** row["inverse_exponent"] for row in rows])  # of the sum's deviation
    assert (abs(inverse * COUNTED * DEVIATION / 2**8 - 1) < 0.05).all()


def test_a_command_without_statistics_has_no_tables():
    assert not given(Opcode.NORM_SUMS)
    assert norm_exponents(Command(Opcode.NORM_RUNNING, SHAPE)) == {3: -8, 4: -14}
    assert norm_exponents(Command(Opcode.NORM_BACKWARD, SHAPE)) == {3: -8, 4: -8}
