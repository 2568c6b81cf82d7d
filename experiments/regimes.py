"""Regimes in which methods are compared: a network, images, and the length of its training."""

from dataclasses import asdict, dataclass
from typing import Any

import torch

from .errors import ExperimentError

__all__ = ["REGIMES", "Regime"]


@dataclass(frozen=True)
class Regime:
    """``epochs``: of the whole training. ``images``: trained with, all if 0. ``image_size``: they are made so small.

    ``steep``: accuracy still grows quickly with more training at the end; otherwise half of it would nearly do.
    ``lrs``: learning rates among which each method's is chosen. ``preset``: of the accelerator whose cycles are
    counted, "" if none are; ``tuning``: seeds that each learning rate is tried with, before
    the best are looked at once more; ``wants_gpu``: it is long.
    Examples as :class:`.workers.DataSettings` has them.
    """

    name: str
    data: str
    model: str
    epochs: int
    batch_size: int
    image_size: int
    channels: int
    images: int = 0
    steep: bool = False
    lrs: tuple[float, ...] = (0.005, 0.015, 0.05, 0.15)
    augment: bool = False
    threads: int = 1
    preset: str = "ecp5"
    tuning: int = 4
    wants_gpu: bool = False
    device: str = "cpu"

    @property
    def follow(self) -> bool:
        """False: a comparison looks at ends only; validation after each epoch would take much of the time."""
        return False

    def deciding(self) -> dict[str, Any]:
        """Settings that outcomes in a folder share, PyTorch and GPU included; learning rates and seeds may be added.

        Raises ExperimentError if there is no GPU for it.
        """
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ExperimentError("device = 'cuda', and PyTorch finds no GPU")
        mine = {
            name: value for name, value in asdict(self).items() if name not in ("lrs", "preset", "tuning", "wants_gpu")
        }
        gpu = {"gpu": torch.cuda.get_device_name()} if self.device == "cuda" else {}
        return {**mine, "torch": torch.__version__, **gpu}


REGIMES = {regime.name: regime for regime in (
    Regime("digits-steep", "digits", "small-cnn", 12, 64, 8, 1, steep=True, lrs=(0.015, 0.05, 0.15, 0.45)),
    Regime("digits-long", "digits", "small-cnn", 40, 64, 8, 1),
    Regime("fashion-steep", "fashion-mnist", "small-cnn", 10, 64, 14, 1, 4000, steep=True, tuning=2),
    Regime("fashion-long", "fashion-mnist", "small-cnn", 30, 64, 14, 1, 5000, tuning=2),
    Regime("cifar-steep", "cifar10", "small-cnn", 8, 64, 16, 3, 10000, steep=True, lrs=(0.015, 0.05, 0.15), preset="",
           tuning=2),
    Regime("cifar-long", "cifar10", "small-cnn", 40, 64, 16, 3, 2000, lrs=(0.015, 0.05, 0.15), preset="", tuning=2),
    Regime("cifar-resnet8", "cifar10", "small-resnet", 8, 64, 16, 3, 5000, steep=True, lrs=(0.05, 0.15, 0.45),
           preset="", tuning=2),
    Regime("cifar16-steep", "cifar10", "small-cnn", 27, 64, 16, 3, 8000, steep=True, lrs=(0.015, 0.05, 0.15), preset="",
           tuning=2),
    Regime("cifar32-steep", "cifar10", "small-cnn", 10, 64, 32, 3, 8000, steep=True, lrs=(0.015, 0.05, 0.15), preset="",
           tuning=2),
    Regime("cifar5-steep", "cifar10", "small-cnn5", 8, 64, 16, 3, 20000, steep=True, preset="paper", wants_gpu=True),
    Regime("cifar5-long", "cifar10", "small-cnn5", 50, 64, 16, 3, 4000, preset="paper", wants_gpu=True),
    Regime("fashion-full", "fashion-mnist", "small-cnn", 10, 64, 14, 1, lrs=(0.005, 0.015, 0.05), tuning=2,
           wants_gpu=True),
    Regime("cifar-vgg13", "cifar10", "vgg13", 12, 128, 32, 3, 10000, steep=True, lrs=(0.02, 0.06, 0.18), preset="",
           tuning=2, wants_gpu=True),
)}  # fmt: skip
"""By name: of each data set one far from saturation, and one in it, as the paper's trainings are. Others are of other
networks; ``cifar32-steep`` has CIFAR-10's images as they are, and ``cifar16-steep``, of the same images made smaller,
epochs for as many MACs as its ``coarse`` takes; in ``fashion-full`` the predictor learns from as many batches as in the
paper's."""
