"""Sets of opcodes by the hardware that executes them, and the opcodes that a configuration builds."""

from .commands import Opcode
from .config import Config

__all__ = [
    "AVERAGES", "BACKWARD", "BACKWARD_WEIGHTS", "COMPUTE", "DEPTHWISE", "GEMMS", "MAXIMA", "NORMS", "NORM_APPLIES",
    "POOLS", "UPDATES", "WITH_FILTERS", "built",
]  # fmt: skip

GEMMS = (Opcode.FORWARD, Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT)
"""Commands of the array."""

MAXIMA = (Opcode.MAXPOOL, Opcode.MAXPOOL_BACKWARD)
"""Pools that have an index tensor."""

AVERAGES = (Opcode.AVGPOOL, Opcode.AVGPOOL_BACKWARD, Opcode.REORGANISE)
"""Sums times a constant."""

POOLS = (*MAXIMA, *AVERAGES)
"""Commands of the pool unit, and REORGANISE: as many output channels as input channels, no filters."""

DEPTHWISE = (Opcode.DEPTHWISE, Opcode.DEPTHWISE_BACKWARD_DATA, Opcode.DEPTHWISE_BACKWARD_WEIGHT)
"""Commands that only ``Config.depthwise`` builds."""

NORMS = (
    Opcode.NORM_SUMS, Opcode.NORM_CONSTANTS, Opcode.NORM_APPLY,
    Opcode.NORM_RUNNING, Opcode.NORM_BACKWARD, Opcode.NORM_APPLY_BACKWARD,
)  # fmt: skip
"""Commands that only ``Config.batch_norm`` builds."""

NORM_APPLIES = (Opcode.NORM_APPLY, Opcode.NORM_APPLY_BACKWARD)
"""Batch norm's commands that make a result for each value, not for each channel."""

COMPUTE = tuple(Opcode(number) for number in range(Opcode.FORWARD, Opcode.UPDATE))
"""Opcodes that the sequencer executes, in so far as they are built."""

UPDATES = (Opcode.UPDATE, Opcode.ADAM)
"""Opcodes that the update unit executes."""

BACKWARD = (
    Opcode.BACKWARD_DATA, Opcode.MAXPOOL_BACKWARD, Opcode.AVGPOOL_BACKWARD, Opcode.DEPTHWISE_BACKWARD_DATA,
    Opcode.NORM_APPLY_BACKWARD,
)  # fmt: skip
"""Commands that read what is shaped like Y through operand A, and write what is shaped like X."""

BACKWARD_WEIGHTS = (Opcode.BACKWARD_WEIGHT, Opcode.DEPTHWISE_BACKWARD_WEIGHT)
"""Commands that sum up gradients of filters, over the pixels."""

WITH_FILTERS = (Opcode.FORWARD, Opcode.BACKWARD_DATA, Opcode.DEPTHWISE, Opcode.DEPTHWISE_BACKWARD_DATA)
"""Commands that read filters as operand B."""


def built(config: Config) -> tuple[Opcode, ...]:
    """The opcodes that ``config`` builds; the others are BAD_OPCODE."""
    missing: tuple[Opcode, ...] = () if config.predicts else (Opcode.REORGANISE, Opcode.ADAM)
    missing += () if config.depthwise else DEPTHWISE
    missing += () if config.batch_norm else NORMS
    return tuple(opcode for opcode in Opcode if opcode not in missing)
