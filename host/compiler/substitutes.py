"""Gradients of GP batches that need no predictor, to compare its own with: a GP batch is its UPDATE commands alone.

``zero``: none; momentum coasts and weights decay. ``last``: the last true ones. ``mean``: an exponential mean of the
true ones. ``skip``: the program has no GP batch, the host leaves it out.

What is kept of true gradients, of ``last`` and ``mean``, is a persistent tensor, for a gradient's own exponent is
already the next batch's when a GP batch begins. Of ``mean`` it is the mean times 2^MEAN_SHIFT.
"""

from collections.abc import Iterator

import numpy as np

from ...spec.commands import CMode, Opcode, Source
from ...spec.config import Config
from ...spec.numerics import MEAN_SHIFT
from ..devices.device import Device
from .batch import BACKPROPAGATION, Step
from .lowering import Kind, Layer
from .quantise import constant, operand_type
from .tensors import Tensor

__all__ = ["Control"]

FIRST_EXPONENT = -24
"""Of what is kept while it is zero: gradients of 2^-71 to 2^-9 an LSB can be added to it in calibration."""
SHIFT = "kept.shift"
"""Number of the exponent by which what is kept is off."""
KEEPING = ("last", "mean")


class Control:
    """What a source without predictor adds to a network's tensors and commands, in the manner of a Predictor."""

    guesses = False
    shapes: dict[str, tuple[int, int]] = {}
    scales: tuple[str, ...] = ()

    def __init__(self, layers: list[Layer], batch: int, config: Config, source: str):
        self.layers = [layer for layer in layers if layer.kind is Kind.GEMM]
        self.config, self.source = config, source

    @property
    def kept(self) -> list[str]:
        """Names of the tensors that are the state of the source."""
        return [f"{layer.name}.kept" for layer in self.layers] if self.source in KEEPING else []

    def tensors(self, number: int) -> Iterator[tuple[str, Tensor]]:
        """All tensors and their group in memory ("" for what has only a number), numbered from ``number`` on."""
        if self.source not in KEEPING:
            return
        operand = operand_type(self.config.operand_width)
        yield "", Tensor(SHIFT, (), operand, number)
        for place, layer in enumerate(self.layers, 1):
            yield "state", Tensor(f"{layer.name}.kept", (layer.q, layer.filter_elements), operand, number + place)

    def load(self, tensors: dict[str, Tensor], device: Device) -> None:
        """The state that a run begins with."""
        for name in self.kept:
            tensor = tensors[name]
            device.write(tensor.address, np.zeros(tensor.shape, tensor.dtype))
            device.set_exponents(tensor.number, FIRST_EXPONENT, FIRST_EXPONENT)
        if SHIFT in tensors:
            device.set_exponents(tensors[SHIFT].number, -MEAN_SHIFT if self.source == "mean" else 0)

    def learn(self, place: int, layer: Layer) -> Iterator[Step]:
        """The layer's true gradient becomes what is kept, or is added to it in place."""
        if self.source not in KEEPING:
            return
        mean, elements = self.source == "mean", layer.filter_elements
        kept, gradient = f"{layer.name}.kept", f"{layer.name}.weight_gradient"
        mantissa, exponent = constant(1 - 2.0**-MEAN_SHIFT if mean else 1)
        yield Step(
            Opcode.AVGPOOL, BACKPROPAGATION, place,
            {"a": kept, "c": gradient, "out": kept} if mean else {"a": gradient, "out": kept},
            {"c_mode": int(CMode.ADD if mean else CMode.NONE), "track": 1, "const_mantissa": mantissa,
             "const_exponent": exponent},
            {"n": 1, "h": layer.q, "w": 1, "c": elements, "oh": layer.q, "ow": 1, "q": elements, "r": 1, "s": 1,
             "stride": 1},
        )  # fmt: skip

    def given(self, layer: Layer, true: Step) -> dict | None:
        """What an UPDATE of GP is given instead of the true gradient ``true`` would; None: there is no UPDATE."""
        if self.source == "skip":
            return None
        if self.source == "zero":
            return {"fields": {**true.fields, "source": int(Source.ZERO)}}
        return {"operands": {**true.operands, "a": f"{layer.name}.kept"}, "numbers": {"scale": SHIFT}}
