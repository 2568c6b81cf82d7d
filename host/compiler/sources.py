"""Sources of gradients by their names."""

from ...spec.config import Config
from ...spec.schedule import GP_MOMENTUM, KEEP, PREDICTING
from .gradient_source import GradientSource, TrueGradients
from .lowering import Layer, LoweringError
from .micro_batches import SummedGradients
from .predictor import Predictor
from .substitutes import Substitute

__all__ = ["check_savings", "source_of"]


def check_savings(name: str | None, predictor_every: int, gp_momentum: str) -> None:
    """Raise LoweringError for values that aren't allowed, or that take a predictor where there is none."""
    if predictor_every < 1:
        raise LoweringError(f"predictor_every = {predictor_every} must be at least 1")
    if gp_momentum not in GP_MOMENTUM:
        raise LoweringError(f"gp_momentum = {gp_momentum!r} must be one of {', '.join(GP_MOMENTUM)}")
    if name not in PREDICTING and (predictor_every > 1 or gp_momentum == KEEP):
        said = f"predictor_every = {predictor_every}" if predictor_every > 1 else f"gp_momentum = {gp_momentum!r}"
        raise LoweringError(f"{said} takes a predictor, so a source of gradients {' or '.join(PREDICTING)}, not {name}")


def source_of(
    layers: list[Layer], batch: int, config: Config, name: str | None, several: bool, number: int = 0, count: int = 1,
    *, gp_momentum: str = "update", learns: bool = True, stops: bool = False,
) -> GradientSource:  # fmt: skip
    """The source of gradients by its name; None: true ones alone.

    ``several``: a batch has more than one micro-batch, each of ``batch`` images. The source is for micro-batch
    ``number`` of ``count``, which are 0 of 1 in the batch that calibrates. ``gp_momentum``: see spec/schedule.py;
    ``learns``, ``stops``: as of :class:`Predictor`. Raises LoweringError if no layer can be predicted.
    """
    true = SummedGradients(layers, config, number, count) if several else TrueGradients()
    if name is None:
        return true
    if name in PREDICTING:
        return Predictor(layers, batch, config, name, true, learns, gp_momentum == KEEP, stops)
    return Substitute(layers, config, name, true)
