"""Sources of gradients: each contributes its tensors and commands to a network's program.

Batches of warm-up and BP always use true gradients. A source decides which gradients batches of phase GP use, if there
are any, and what it must learn or keep from the true ones for that. There are three kinds:

* :class:`TrueGradients`: no phase GP;
* :class:`adagp.host.compiler.predictor.Predictor`: a small network predicts them;
* :class:`adagp.host.compiler.substitutes.Substitute`: they need no predictor (zero, or kept from earlier batches).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from math import prod
from types import MappingProxyType

from ...spec.commands import Opcode, Phase
from .ir import BACKPROPAGATION, HYPER, WITH_LOSS, Step
from .lowering import Layer
from .reasons import by_reason
from .tensors import Tensor, layer_tensor

__all__ = ["FROZEN_NORM", "GradientSource", "TrueGradients", "sgd_update"]

FROZEN_NORM = "batch norm's gamma and beta, which no predictor is for"
"""The reason why GP batches leave a batch norm as it is."""


class GradientSource(ABC):
    """Base class of all sources. ``place`` is a layer's index in the network."""

    has_gp = True
    """True if phase GP differs from BP: no loss and no backward pass."""
    trains_in_gp = True
    """True if batches of GP change weights."""
    calibrating = WITH_LOSS
    """Phases in which a batch may calibrate."""
    forward_phases = Phase.ALL
    """Phases that have a forward pass."""
    unpredicted: Mapping[str, str] = MappingProxyType({})
    """Layers on the device that train only where there are true gradients, and why."""

    @property
    def told(self) -> str:
        """The layers that aren't predicted, with reasons, as a text."""
        return "; ".join(by_reason(self.unpredicted))

    @property
    def scales(self) -> list[str]:
        """Names of tensors that have a scale in the exponent table instead of an exponent."""
        return []

    def tensors(self, number: int) -> Iterator[tuple[str, Tensor]]:
        """The source's tensors with their groups in memory ("" for a mere number), numbered from ``number`` on."""
        yield from ()

    @abstractmethod
    def forward(self, place: int, layer: Layer, forward: Step) -> Iterator[Step]:
        """The steps of a layer's forward pass, among them ``forward``, and in GP of its update."""

    def before_backward(self) -> Iterator[Step]:
        """The steps between the loss and the backward pass."""
        yield from ()

    def update(self, place: int, layer: Layer) -> Iterator[Step]:
        """The steps of a layer's update after its true gradient has been computed."""
        yield sgd_update(place, layer, BACKPROPAGATION)

    def after_backward(self) -> Iterator[Step]:
        """The steps after the backward pass."""
        yield from ()

    def programs(self) -> dict[str, list[Step]]:
        """The steps of programs beside the batch's, by name."""
        return {}


class TrueGradients(GradientSource):
    """The source of networks that only know true gradients; phase GP is like BP."""

    has_gp = trains_in_gp = False
    number, count = 0, 1
    """The micro-batch's place in the batch, and how many there are."""

    @property
    def first(self) -> bool:
        """True for the batch's first micro-batch."""
        return self.number == 0

    @property
    def last(self) -> bool:
        """True for the batch's last micro-batch, which is followed by updates."""
        return self.number == self.count - 1

    def forward(self, place: int, layer: Layer, forward: Step) -> Iterator[Step]:
        yield forward

    def gradient(self, layer: Layer) -> str:
        """Name of the tensor with a layer's gradient at the batch's end."""
        return layer_tensor(layer, "weight_gradient")

    def summed(self, place: int, layer: Layer) -> Iterator[Step]:
        """The steps that add a micro-batch's gradient to that tensor, if its own command doesn't."""
        yield from ()


def sgd_update(place: int, layer: Layer, phases: Phase, gradient: str = "") -> Step:
    """SGD on a layer's weights with its true gradient, which is in the tensor ``gradient`` if that is given."""
    parts = {"a": "weight_gradient", "b": "weight", "c": "low", "out": "momentum"}
    operands = {operand: layer_tensor(layer, part) for operand, part in parts.items()}
    operands["a"] = gradient or operands["a"]
    return Step(Opcode.UPDATE, phases, place, operands, {"count": prod(layer.weight_shape), "hyper": HYPER})
