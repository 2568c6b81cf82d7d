"""The compiler's intermediate form: commands whose operands are still tensors by name."""

from dataclasses import dataclass, field

from ...spec.commands import Opcode, Phase
from .matrices import Multiplication

__all__ = ["BACKPROPAGATION", "HYPER", "WITH_LOSS", "Step"]

HYPER = 0
"""Hyper-parameter index of the learning rate; momentum and weight decay follow."""

BACKPROPAGATION = Phase.WARMUP | Phase.BP
"""Phases with a backward pass, and so with true gradients."""

WITH_LOSS = Phase.ALL & ~Phase.GP
"""Phases with a loss, where GP batches take their gradients from elsewhere."""


@dataclass(frozen=True)
class Step:
    """A command whose operands are tensor names.

    Parameters
    ----------
    opcode, phases: the command, and the phases in which it is executed
    layer: place of the layer that it belongs to
    operands: tensor names by operand (a, b, c, d, out)
    fields: values of other fields of the command
    shape: its geometry, images included; None: the layer's
    numbers: tensors whose exponents are used instead of the operands' own, by operand; and the tensor of the ``scale``
    offsets: elements from the beginning of an operand's tensor to the first that is used
    name: its owner, if that isn't the layer
    product: the product that it is a part of
    group: the group of its layer's channels that it computes; None: all of them
    rest: it changes, in place, a part of what the step before made
    micro_batch: the micro-batch whose input it reads
    """

    opcode: Opcode
    phases: Phase
    layer: int = 0
    operands: dict[str, str] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)
    shape: dict[str, int] | None = None
    numbers: dict[str, str] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    name: str = ""
    product: Multiplication | None = None
    group: int | None = None
    rest: bool = False
    micro_batch: int = 0
