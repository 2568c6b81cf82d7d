"""adagp: a DNN training accelerator that predicts gradients (ADA-GP), generated and proven; and ADA-GP for PyTorch."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .algorithm import PAPER, AdaGP, Metrics, Phase, PredictorSettings, schedule

__all__ = ["PAPER", "AdaGP", "Metrics", "Phase", "PredictorSettings", "__version__", "schedule"]

__version__ = "0.1.0"


def __getattr__(name: str):
    """The library's names, which need PyTorch, when they are wanted."""
    if name in __all__:
        from . import algorithm

        return getattr(algorithm, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
