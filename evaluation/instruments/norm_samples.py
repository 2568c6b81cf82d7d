"""Operands of batch norm's commands as a batch has them: the serial steps of their constants depend on the values."""

import numpy as np

from ...golden.batch_norm import forward_rows, pack_sums, sums
from ...host.compiler.norm_state import import_states, norm_constants
from ...spec.commands import Command, Opcode

__all__ = ["norm_exponents", "norm_operands"]

X_EXPONENT, WEIGHTS_EXPONENT = -8, -14
"""Exponents: that of X and dY, and that of gamma and beta."""
EPSILON, MOMENTUM = 1e-5, 0.1
MOST_VALUES = 1 << 12
"""Values of a channel that are drawn; its sums are scaled to those of all."""


def norm_operands(command: Command, draw: np.random.Generator) -> dict[str, np.ndarray]:
    """The tables that a command of batch norm reads, by operand; none for a command that reads no statistics."""
    c, n = command.c, command.n * command.h * command.w
    x, g = draw.normal(0, 300, (2, min(n, MOST_VALUES), c)).round().clip(-9999, 9999).astype(np.int16)
    x += draw.normal(0, 300, c).round().astype(np.int16)  # channels' means differ
    scale = max(1, n // MOST_VALUES)
    of_x, of_g = (tuple(part * scale for part in pair) for pair in (sums(x), sums(x, g)))
    weights = np.stack([draw.uniform(0.5, 1.5, c), draw.normal(0, 0.1, c)])
    weights = (weights * 2**14).round().astype(np.int16)
    states = import_states(draw.normal(0, 1, c), draw.uniform(0.5, 2, c))
    if command.opcode == Opcode.NORM_CONSTANTS:
        return {"b": weights, "c": states, "e": pack_sums(of_x)}
    if command.opcode == Opcode.NORM_RUNNING:
        return {"b": weights, "c": states}
    if command.opcode == Opcode.NORM_BACKWARD:
        constants = norm_constants(scale * len(x), EPSILON, MOMENTUM)
        rows = forward_rows(of_x, weights, WEIGHTS_EXPONENT, X_EXPONENT, constants)
        return {"b": rows, "e": pack_sums(of_g)}
    return {}


def norm_exponents(command: Command) -> dict[int, int]:
    """Exponents of the tensors that a command of batch norm reads, by number."""
    weights = command.opcode in (Opcode.NORM_CONSTANTS, Opcode.NORM_RUNNING)
    return {command.a_id: X_EXPONENT, command.b_id: WEIGHTS_EXPONENT if weights else X_EXPONENT}
