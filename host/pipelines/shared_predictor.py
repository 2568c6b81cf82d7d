"""The predictor of a pipeline: one for all layers, of which each device has a copy.

Devices predict by equal weights. At the end of a batch with true gradients the stages add to the predictor's gradient
one after the other, from the last to the first, as one device does. All devices then have it and take the same step of
Adam. Exponents that all layers share follow from the maxima of all of them, and so are made equal after the batch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...spec.commands import Phase
from ...spec.config import Config
from ..compiler.gradient_source import GradientSource
from ..compiler.ir import Step as Command
from ..compiler.lowering import LoweringError
from ..compiler.predictor_steps import SHARED
from ..compiler.tensors import PREDICTOR, Tensor, part_of, predictor_tensor
from ..compiler.window_sums import TABLE
from ..program import Program

__all__ = ["BATCH_END", "StatePart", "check_source", "kept", "largest", "tracked"]

BATCH_END = -1
"""The micro-batch of a message after all of them."""


@dataclass(frozen=True)
class StatePart:
    """A device's part of the predictor, as :mod:`adagp.host.training.gradient_state` needs it."""

    config: Config
    source: GradientSource
    tensors: Mapping[str, Tensor]
    copies: Mapping[str, Program]

    @property
    def window(self) -> range:
        """Addresses of the predictor memory; empty without a predictor."""
        first = self.tensors.get(predictor_tensor("weight", "conv"))
        return range(0) if first is None else range(first.address, first.address + self.config.predictor_bytes)


def kept(source: GradientSource, declared: Iterable[tuple[str, Tensor]]) -> set[str]:
    """Names of the tensors that every device has, whatever its layers are."""
    own = (tensor.name for _, tensor in declared if tensor.name.startswith(f"{PREDICTOR}."))
    return {*source.scales, *(name for name in own if part_of(name) != TABLE)}


def tracked(commands: Iterable[Command]) -> frozenset[str]:
    """The shared tensors whose maxima a device's commands see."""
    written = (command.numbers.get("out", command.operands.get("out", "")) for command in commands
               if command.fields.get("track") and command.phases & Phase.BP)  # fmt: skip
    return frozenset(written) & frozenset(SHARED)


def largest(seen: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The exponents of shared tensors from those of devices that have seen maxima, as one device has them.

    A stage whose values are all zero lowers its own exponent by a fixed step. One device wouldn't see that; here it
    counts if the others have fallen by more in one batch.
    """
    return {name: max(each[name] for each in seen if name in each) for name in SHARED}


def check_source(name: str | None, config: Config) -> None:
    """Raise LoweringError for a source of gradients that stages can't have."""
    if name not in (None, "predicted"):
        raise LoweringError(f"gradients from the source {name!r} need one device: stages take 'predicted' alone")
    if name and not config.predicts:
        raise LoweringError(f"predicted gradients need a design with a predictor, {config.name} is {config.variant}")
    if config.streams:
        raise LoweringError("streamed predictions need one device: stages take designs that spill them")
