"""Islands: parts of a network that the machine lacks and the host computes, and the stops at which it does.

An island is a run of operators between values that lie in the machine's memory. At a HOST command the host reads the
island's inputs, computes in float64, and writes each result at an exponent of its own; so all devices give the same
bits.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from ...spec.commands import Phase
from .matrices import Multiplication

__all__ = ["Function", "Island", "Stop"]


class Function(Protocol):
    """An island's computation: torch tensors of float64 in and out, of torch's own shapes, differentiable.

    ``parameters`` and ``buffers`` by state-dict name; ``inputs`` in the order of the island's. Values that torch has
    as integers or booleans come and go as float64 too. Random operators draw from ``seed`` alone. Returns the outputs
    and the buffers that have changed; buffers change only if ``training``.
    """

    def __call__(
        self, parameters: dict[str, Any], buffers: dict[str, Any], inputs: list[Any], *, training: bool, seed: int
    ) -> tuple[list[Any], dict[str, Any]]: ...


@dataclass(frozen=True)
class Island:
    """A part of a network that the host computes.

    Parameters
    ----------
    name: module path and type of its first operator, such as ``layer1.0.bn1.BatchNorm2d``
    operators: names of its operators, in their order
    inputs, outputs: names of values; each is the name of a tensor in memory, of ``Compiled.values`` too
    parameters, buffers: state-dict names; the host trains the parameters and keeps the buffers, to which frozen
        parameters belong
    function: the computation
    reasons: operators, each with the module path and type, and the reason why the machine doesn't compute it
    """

    name: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    function: Function
    reasons: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Stop:
    """A HOST command: why the machine waits, which tensors the host reads and which it writes.

    ``join``: a part of a tensor and those before it, and the whole; ``normed``: values in the whole that batch norms
    have read by then, and the tables with their sums. ``product``: operands of a product, and the result, which is
    read too if another product has written to it. ``forward``: an island's inputs, outputs. ``loss``: the network's
    results and the loss's gradients. ``backward``: gradients of the island's outputs and of its inputs, in their order,
    "" for one that isn't needed or, of an output, is zero; the inputs themselves are still in memory.
    """

    kind: str
    island: Island | None
    phases: Phase
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    product: Multiplication | None = None
    normed: tuple[tuple[str, str], ...] = ()
