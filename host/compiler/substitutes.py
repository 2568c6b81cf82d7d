"""Gradients of GP batches that need no predictor, to compare predictions with: such a batch only has UPDATE commands.

``zero``: none; momentum coasts and weights decay. ``last``: the last true ones. ``mean``: an exponential mean of the
true ones. ``skip``: the program has no GP batch, and the host leaves it out.

``last`` and ``mean`` keep true gradients in a persistent tensor, because a gradient's own exponent is already the next
batch's when a GP batch begins. ``mean`` keeps the mean times 2^MEAN_SHIFT.
"""

from collections.abc import Iterator
from dataclasses import replace

from ...spec.commands import CMode, Opcode, Phase, Source
from ...spec.config import Config
from ...spec.numerics import MEAN_SHIFT
from .gradient_source import FROZEN_NORM, GradientSource, TrueGradients, sgd_update
from .ir import BACKPROPAGATION, WITH_LOSS, Step
from .lowering import Kind, Layer
from .quantise import constant, operand_type
from .tensors import KEPT_SHIFT, Tensor, layer_tensor

__all__ = ["Substitute"]

_KEEPING = ("last", "mean")
"""Kinds that keep gradients."""


class Substitute(GradientSource):
    """A gradient source without predictor.

    Parameters
    ----------
    layers: the network's
    config: the accelerator's
    kind: ``zero``, ``last``, ``mean`` or ``skip``
    true: the source of true gradients
    """

    forward_phases = WITH_LOSS

    def __init__(self, layers: list[Layer], config: Config, kind: str, true: TrueGradients | None = None):
        self.true = true or TrueGradients()
        self.layers = [layer for layer in layers if _trains(layer)]
        self.config, self.kind, self.trains_in_gp = config, kind, kind != "skip"
        norms = (layer for layer in layers if layer.trains and layer.kind is Kind.NORM)
        self.unpredicted = {layer.name: FROZEN_NORM for layer in norms}

    @property
    def kept(self) -> list[str]:
        """Names of the tensors that keep gradients."""
        return [layer_tensor(layer, "kept") for layer in self.layers] if self.kind in _KEEPING else []

    @property
    def kept_shift(self) -> int:
        """The exponent that is added to those of kept gradients."""
        return -MEAN_SHIFT if self.kind == "mean" else 0

    def tensors(self, number: int) -> Iterator[tuple[str, Tensor]]:
        for group, tensor in self.true.tensors(number):
            yield group, tensor
            number = tensor.number + 1
        if self.kind not in _KEEPING:
            return
        operand = operand_type(self.config.operand_width)
        yield "", Tensor(KEPT_SHIFT, (), operand, number)
        for following, (layer, name) in enumerate(zip(self.layers, self.kept, strict=True), number + 1):
            yield "state", Tensor(name, (layer.q, layer.filter_elements), operand, following)

    def forward(self, place: int, layer: Layer, forward: Step) -> Iterator[Step]:
        """The forward pass, which GP batches do without; they only update."""
        yield replace(forward, phases=forward.phases & WITH_LOSS)
        if self.true.last and _trains(layer) and self.trains_in_gp:
            yield self.gp_gradient(layer, sgd_update(place, layer, Phase.GP))

    def gp_gradient(self, layer: Layer, update: Step) -> Step:
        """The ``update`` with the gradient that GP batches use instead of the true one."""
        if self.kind == "zero":
            return replace(update, fields={**update.fields, "source": int(Source.ZERO)})
        operands = {**update.operands, "a": layer_tensor(layer, "kept")}
        return replace(update, operands=operands, numbers={"scale": KEPT_SHIFT})

    def update(self, place: int, layer: Layer) -> Iterator[Step]:
        yield from self.true.update(place, layer)
        if self.true.last and self.kind in _KEEPING and _trains(layer):
            yield self._keep(place, layer)

    def _keep(self, place: int, layer: Layer) -> Step:
        """The layer's true gradient replaces the one that is kept, or is added to the mean in place."""
        mean, elements = self.kind == "mean", layer.filter_elements
        kept, gradient = layer_tensor(layer, "kept"), self.true.gradient(layer)
        mantissa, exponent = constant(1 - 2.0**-MEAN_SHIFT if mean else 1)
        return Step(
            Opcode.AVGPOOL, BACKPROPAGATION, place,
            {"a": kept, "c": gradient, "out": kept} if mean else {"a": gradient, "out": kept},
            {"c_mode": int(CMode.ADD if mean else CMode.NONE), "track": 1, "const_mantissa": mantissa,
             "const_exponent": exponent},
            {"n": 1, "h": layer.q, "w": 1, "c": elements, "oh": layer.q, "ow": 1, "q": elements, "r": 1, "s": 1,
             "stride": 1},
        )  # fmt: skip


def _trains(layer: Layer) -> bool:
    """True if GP batches train a layer: gamma and beta of batch norms are frozen."""
    return layer.trains and layer.kind is not Kind.NORM
