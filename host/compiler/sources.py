"""Sources of gradients by their names."""

from ...spec.config import Config
from ...spec.schedule import PREDICTING
from .gradient_source import GradientSource, TrueGradients
from .lowering import Layer
from .micro_batches import SummedGradients
from .predictor import Predictor
from .substitutes import Substitute

__all__ = ["source_of"]


def source_of(
    layers: list[Layer], batch: int, config: Config, name: str | None, several: bool, number: int = 0, count: int = 1
) -> GradientSource:
    """The source of gradients by its name; None: true ones alone.

    ``several``: a batch has more than one micro-batch, each of ``batch`` images. The source is for micro-batch
    ``number`` of ``count``, which are 0 of 1 in the batch that calibrates. Raises LoweringError if no layer can be
    predicted.
    """
    true = SummedGradients(layers, config, number, count) if several else TrueGradients()
    if name is None:
        return true
    if name in PREDICTING:
        return Predictor(layers, batch, config, name, true)
    return Substitute(layers, config, name, true)
