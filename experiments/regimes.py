"""Where methods are compared: a network, images, and for how long it is trained with how many of them."""

from dataclasses import dataclass
from pathlib import Path

from .data import Splits
from .prepared import prepared

__all__ = ["REGIMES", "Regime"]


@dataclass(frozen=True)
class Regime:
    """``epochs``: of the whole training. ``images``: trained with, all if 0. ``size``: images are made so small.

    ``needs``: the data set's files must be given. ``steep``: accuracy still grows quickly with more training at the
    end; otherwise half of it would nearly do.
    """

    name: str
    data: str
    model: str
    epochs: int
    batch_size: int
    size: int
    channels: int
    images: int = 0
    needs: bool = True
    steep: bool = False
    lrs: tuple[float, ...] = (0.005, 0.015, 0.05, 0.15)

    def prepare(self, folder: Path | None, seed: int = 0) -> Splits:
        """Its images: the same few for every run. Raises DataError."""
        folder = folder if self.needs else None
        return prepared(self.data, folder, size=self.size, images=self.images, seed=seed)


REGIMES = {regime.name: regime for regime in (
    Regime("digits-steep", "digits", "small-cnn", 6, 64, 8, 1, needs=False, steep=True),
    Regime("digits-long", "digits", "small-cnn", 40, 64, 8, 1, needs=False),
    Regime("fashion-steep", "fashion-mnist", "small-cnn", 4, 64, 14, 1, 10000, steep=True),
    Regime("fashion-long", "fashion-mnist", "small-cnn", 30, 64, 14, 1, 5000),
    Regime("cifar-steep", "cifar10", "small-cnn5", 8, 64, 16, 3, 20000, steep=True),
    Regime("cifar-long", "cifar10", "small-cnn5", 50, 64, 16, 3, 4000),
)}  # fmt: skip
"""By name: of each data set one far from saturation, and one in it, as the paper's trainings are."""
