"""Data sets that the host has too: digits, which need no file, and Fashion-MNIST."""

from pathlib import Path

from ...host.training.data import DataError, Dataset, load_dataset
from .images import image_splits
from .splits import VALIDATION, Splits, needed_folder

__all__ = ["digits", "fashion_mnist"]

URL = "https://github.com/zalandoresearch/fashion-mnist"


def _splits(data: Dataset, validation, seed, augment):
    train, test = (data.train_x_NCHW, data.train_y_N), (data.test_x_NCHW, data.test_y_N)
    return image_splits(data.name, train, test, data.n_classes, validation, seed, augment)


def digits(
    folder: Path | None = None, *, validation: float = VALIDATION, seed: int = 0, augment: bool = False
) -> Splits:
    """scikit-learn's 1797 digits, 8x8, one channel; 360 of them to test."""
    return _splits(load_dataset("digits"), validation, seed, augment)


def fashion_mnist(
    folder: Path | None, *, validation: float = VALIDATION, seed: int = 0, augment: bool = False
) -> Splits:
    """70,000 pieces of clothing, 28x28, one channel, 10 classes; 10,000 of them to test."""
    files = "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the same of t10k"
    folder = needed_folder("fashion-mnist", folder, files, URL)
    try:
        data = load_dataset("fashion-mnist", folder)
    except DataError as error:
        raise DataError(f"{error}; published at {URL}") from None
    return _splits(data, validation, seed, augment)
