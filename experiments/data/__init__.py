"""Data sets in the forms in which they are published; nothing is downloaded."""

from collections.abc import Callable
from pathlib import Path

from ...host.training.data import DataError
from .batches import Batches, Examples
from .cifar import cifar10, cifar100
from .compact import tiny_imagenet10
from .folders import imagenet
from .images import ImageSet
from .shipped import digits, fashion_mnist
from .splits import Splits
from .translation import multi30k
from .voc import voc

__all__ = ["DATASETS", "SHIPPED", "Batches", "DataError", "Examples", "ImageSet", "Splits", "load"]

DATASETS: dict[str, Callable[..., Splits]] = {
    "cifar10": cifar10, "cifar100": cifar100, "imagenet": imagenet, "tiny-imagenet10": tiny_imagenet10, "voc": voc,
    "multi30k": multi30k, "digits": digits, "fashion-mnist": fashion_mnist,
}  # fmt: skip


SHIPPED = ("digits",)
"""Those that need no files."""


def load(name: str, folder: Path | None = None, **options) -> Splits:
    """The data set ``name`` from its files in ``folder``, in three parts.

    ``options`` of all sets of images: ``validation``, the share of the training part that becomes the validation part
    where a set has none; ``seed``, of that choice; ``augment``, whether training images vary. Those of a single set
    are told at its function. Raises DataError, in one line, for a file that is missing or wrong.
    """
    if name not in DATASETS:
        raise DataError(f"no data set {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name](folder, **options)
