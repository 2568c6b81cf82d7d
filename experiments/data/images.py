"""Images with labels, in memory: normalised, and varied when they are trained with."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...host.training.data import DataError
from ...host.training.library_models import MODELS_EXTRA
from .batches import Draw
from .splits import Splits, split

__all__ = ["ImageSet", "Statistics", "crop_and_flip", "image_splits", "opened", "pixels", "shares"]

PADDING = 4
"""Pixels around an image, of which a crop may have some."""


def shares(images: np.ndarray) -> np.ndarray:
    """Images as float32 from 0 to 1; bytes are divided by 255."""
    return images.astype(np.float32) / (255 if images.dtype == np.uint8 else 1)


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of each channel, of values from 0 to 1."""

    mean_C: np.ndarray
    std_C: np.ndarray

    @classmethod
    def of(cls, images_NCHW: np.ndarray) -> "Statistics":
        """Over all pixels of all images; in pieces, as sums of many float32 lose digits."""
        total = square = np.zeros(images_NCHW.shape[1])
        for first in range(0, len(images_NCHW), 1024):
            piece = shares(images_NCHW[first : first + 1024]).astype(np.float64)
            total, square = total + piece.sum((0, 2, 3)), square + (piece**2).sum((0, 2, 3))
        count = images_NCHW[:, 0].size
        mean = total / count
        return cls(mean, np.sqrt(np.maximum(square / count - mean**2, 1e-12)))

    def normalised(self, images_NCHW: np.ndarray) -> Tensor:
        """Images less the mean, over the standard deviation, as float32."""
        mean, std = (x.astype(np.float32)[:, None, None] for x in (self.mean_C, self.std_C))
        return torch.from_numpy((shares(images_NCHW) - mean) / std)


def crop_and_flip(image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """CIFAR's usual variation: shifted by up to PADDING pixels each way, black comes in, and mirrored half of the time.

    ``rng``: two draws for the place, one for the mirror.
    """
    _, height, width = image_CHW.shape
    top, left = rng.integers(0, 2 * PADDING + 1, 2)
    padded = np.pad(image_CHW, ((0, 0), (PADDING, PADDING), (PADDING, PADDING)))
    crop = padded[:, top : top + height, left : left + width]
    return crop[:, :, ::-1] if rng.integers(2) else crop


@dataclass(frozen=True)
class ImageSet:
    """Images [N, C, H, W], bytes or float32 from 0 to 1, with labels; ``augment``: by :func:`crop_and_flip`."""

    images_NCHW: np.ndarray
    labels_N: np.ndarray
    statistics: Statistics
    augment: bool = False

    def __len__(self) -> int:
        return len(self.labels_N)

    def batch(self, indexes: np.ndarray, draw: Draw) -> tuple[Tensor, Tensor]:
        """Normalised images [N, C, H, W] and labels [N]."""
        images = self.images_NCHW[indexes]
        if self.augment:
            images = np.stack([crop_and_flip(x, draw(i)) for x, i in zip(images, indexes, strict=True)])
        return self.statistics.normalised(images), torch.from_numpy(self.labels_N[indexes].astype(np.int64))


Part = tuple[np.ndarray, np.ndarray]
"""Images and labels."""


def image_splits(
    name: str, train: Part, test: Part, n_classes: int, validation: float, seed: int, augment: bool
) -> Splits:
    """Parts of a data set in memory; statistics are those of what is trained with."""
    (x, y), (test_x, test_y) = train, test
    for part, labels in (("training", y), ("test", test_y)):
        if labels.min(initial=0) < 0 or labels.max(initial=0) >= n_classes:
            raise DataError(f"{name}: {part} labels are from {labels.min()} to {labels.max()}, of {n_classes} classes")
    mine, held = split(len(y), validation, seed)
    statistics = Statistics.of(x[mine])
    return Splits(
        name, ImageSet(x[mine], y[mine], statistics, augment), ImageSet(x[held], y[held], statistics),
        ImageSet(test_x, test_y, statistics), n_classes,
    )  # fmt: skip


def opened(source: Path | bytes, name: str | Path):
    """An image file as Pillow's colour image; DataError calls the file ``name``."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise DataError(f"Pillow, which decodes images, isn't installed: {MODELS_EXTRA}") from None
    try:
        with Image.open(BytesIO(source) if isinstance(source, bytes) else source) as file:
            return file.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # SyntaxError: of a broken PNG
        raise DataError(f"can't read {name}: {' '.join(str(error).split())}") from None


def pixels(image) -> np.ndarray:
    """The bytes [3, H, W] of a Pillow image."""
    return np.asarray(image).transpose(2, 0, 1)
