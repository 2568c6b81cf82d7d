"""Commands of batch norm on whole operands; ``golden/batch_norm.py`` has their arithmetic."""

from collections.abc import Mapping

import numpy as np

from ..spec.commands import CMode, Command, Opcode
from ..spec.config import Config
from ..spec.norm import NormConstants, Number
from . import batch_norm
from .epilogue import Result, epilogue
from .layer import LayerExponents, clamp

__all__ = ["compute"]

_APPLY_PLACES = 2
"""Places below those of gamma and beta to which a dry NORM_APPLY makes its result."""
_GRADIENT_PLACES = 7
"""Places below dY's at which a dry NORM_BACKWARD makes its gradients."""
_BACKWARD_PLACES = 16
"""Places below those of a quotient of dY and X at which a dry NORM_APPLY_BACKWARD makes its result."""


def _constants(command: Command) -> NormConstants:
    g = command
    n = 1 if g.opcode == Opcode.NORM_RUNNING else g.n * g.h * g.w
    return NormConstants(
        n, Number(g.const_mantissa, g.const_exponent), g.momentum, Number(g.unbiased_mantissa, g.unbiased_exponent)
    )  # fmt: skip


def _elementwise(
    command: Command, x: Mapping[str, np.ndarray], exps: LayerExponents, config: Config, dry: bool
) -> Result:  # fmt: skip
    """Result of a NORM_APPLY or a NORM_APPLY_BACKWARD."""
    if command.opcode == Opcode.NORM_APPLY:
        acc, exponents = batch_norm.apply(x["a"], x["e"], exps.a)
        exp_dry = exps.b - _APPLY_PLACES
    else:
        acc, exponents = batch_norm.apply_backward(x["a"], x["b"], x["e"], exps.a)
        exp_dry = exps.a - exps.b - _BACKWARD_PLACES
    return epilogue(
        acc, exponents, exp_dry if dry else exps.out, acc_width=config.acc_width, operand_width=config.operand_width,
        c=x.get("c"), exp_c=exps.c, d=x.get("d"), c_mode=CMode(command.c_mode), relu=bool(command.relu),
        **clamp(command, config),
    )  # fmt: skip


def compute(
    command: Command, x: Mapping[str, np.ndarray], exps: LayerExponents, config: Config, dry: bool = False
) -> tuple[Result | None, dict[str, np.ndarray]]:
    """Compute a command of batch norm from its operands ``x``: a result of the epilogue, and tables by operand."""
    constants = _constants(command)
    if command.opcode == Opcode.NORM_SUMS:
        return None, {"out": batch_norm.pack_sums(batch_norm.sums(x["a"], x["b"]))}
    if command.opcode == Opcode.NORM_CONSTANTS:
        of_x = batch_norm.unpack_sums(x["e"])
        rows = batch_norm.forward_rows(of_x, x["b"], exps.b, exps.a, constants)
        return None, {"out": rows, "c": batch_norm.states_after(x["c"], of_x, exps.a, constants)}
    if command.opcode == Opcode.NORM_RUNNING:
        return None, {"out": batch_norm.running_rows(x["c"], x["b"], exps.b, exps.a, constants)}
    if command.opcode == Opcode.NORM_BACKWARD:
        given = x["b"], batch_norm.unpack_sums(x["e"]), exps.b, exps.a, constants.n
        acc, exponents = batch_norm.parameter_gradients(*given)
        gradients = epilogue(
            acc, exponents, exps.a - _GRADIENT_PLACES if dry else exps.out,
            acc_width=config.acc_width, operand_width=config.operand_width,
        )  # fmt: skip
        return gradients, {"out": batch_norm.backward_rows(*given)}
    return _elementwise(command, x, exps, config, dry), {}
