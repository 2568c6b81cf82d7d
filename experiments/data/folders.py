"""ImageNet as folders of image files, one for each class."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...host.training.data import DataError
from .batches import Draw
from .images import Statistics, opened, pixels
from .splits import VALIDATION, Splits, needed_folder, split

__all__ = ["FolderSet", "imagenet"]

URL = "https://image-net.org/download.php"
SUFFIXES = (".jpeg", ".jpg", ".png")
BILINEAR = 2
"""Pillow's number of it."""
SAMPLE = 1000
"""Training images whose statistics stand for those of all."""
MARGIN = 256 / 224
"""Shorter side over the side of the crop in its middle, of images that don't vary."""
AREAS, RATIOS = (0.08, 1.0), (3 / 4, 4 / 3)
"""Share of an image, and width over height, of crops from images that do."""


@dataclass(frozen=True)
class FolderSet:
    """Image files with labels, read when they are wanted; ``image_size``: side of what is cut out of them.

    ``augment``: a part at random in place and size, mirrored half of the time.
    """

    paths: list[Path]
    labels_N: np.ndarray
    image_size: int
    statistics: Statistics
    augment: bool = False

    def __len__(self) -> int:
        return len(self.paths)

    def batch(self, indexes: np.ndarray, draw: Draw) -> tuple[Tensor, Tensor]:
        """Normalised images [N, 3, image_size, image_size] and labels [N]."""
        images = [
            _read(self.paths[index], self.image_size, draw(int(index)) if self.augment else None) for index in indexes
        ]
        return self.statistics.normalised(np.stack(images)), torch.from_numpy(self.labels_N[indexes])


def _read(path: Path, size: int, rng: np.random.Generator | None) -> np.ndarray:
    image = opened(path, path)
    width, height = image.size
    box = _middle(width, height) if rng is None else _somewhere(width, height, rng)
    cut = pixels(image.resize((size, size), BILINEAR, box))
    return cut[:, :, ::-1] if rng is not None and rng.integers(2) else cut


def _middle(width, height, margin=MARGIN):
    half = min(width, height) / margin / 2
    return width / 2 - half, height / 2 - half, width / 2 + half, height / 2 + half


def _somewhere(width, height, rng):
    """Tried ten times; then the largest square in the middle."""
    for _ in range(10):
        area = width * height * rng.uniform(*AREAS)
        ratio = np.exp(rng.uniform(*np.log(RATIOS)))
        w, h = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = rng.integers(width - w + 1), rng.integers(height - h + 1)
            return left, top, left + w, top + h
    return _middle(width, height, 1)


def _listed(folder: Path, classes: list[str] | None) -> tuple[list[str], list[Path], np.ndarray]:
    """Classes, files and labels of train/ or val/."""
    if not folder.is_dir():
        raise DataError(
            f"imagenet: {folder} isn't there; it must hold a folder of image files for each class, of {URL}"
        )
    found = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    if classes is not None and (others := sorted(set(found) - set(classes))):
        raise DataError(f"imagenet: {folder / others[0]} is a class that train has not")
    paths, labels = [], []
    for label, name in enumerate(classes or found):
        files = sorted(path for path in (folder / name).glob("*") if path.suffix.lower() in SUFFIXES)
        paths += files
        labels += [label] * len(files)
    if not paths:
        raise DataError(f"imagenet: {folder} holds no CLASS/*.JPEG, of {URL}")
    return classes or found, paths, np.array(labels, np.int64)


def imagenet(
    folder: Path | None, *, image_size: int = 224, validation: float = VALIDATION, seed: int = 0, augment: bool = False
) -> Splits:
    """Files train/CLASS/*.JPEG to train and validate with, val/CLASS/*.JPEG to test: ImageNet's own test has no labels.

    Classes are numbered by their folders' names.
    """
    folder = needed_folder("imagenet", folder, "train/CLASS/*.JPEG and val/CLASS/*.JPEG", URL)
    classes, paths, labels = _listed(folder / "train", None)
    _, test_paths, test_labels = _listed(folder / "val", classes)
    mine, held = split(len(paths), validation, seed)
    some = np.random.default_rng([seed, 1]).permutation(mine)[:SAMPLE]
    statistics = Statistics.of(np.stack([_read(paths[i], image_size, None) for i in some]))

    def part(indexes, varies):
        return FolderSet([paths[i] for i in indexes], labels[indexes], image_size, statistics, varies)

    test = FolderSet(test_paths, test_labels, image_size, statistics)
    return Splits("imagenet", part(mine, augment), part(held, False), test, len(classes))
