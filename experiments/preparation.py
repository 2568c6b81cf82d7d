"""Data sets as a run wants them: fewer training examples, smaller images."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .data import DataError, ImageSet, Splits, load
from .data.folders import FolderSet
from .data.images import Statistics
from .data.translation import SentencePairs
from .data.voc import VocSet

__all__ = ["SIZED", "prepared", "some"]

SIZED = ("imagenet", "voc")
"""Data sets whose images are cut out of larger ones, in any size."""
_LISTS = {ImageSet: ("images_NCHW", "labels_N"), FolderSet: ("paths", "labels_N"), VocSet: ("names",),
          SentencePairs: ("source", "target")}  # fmt: skip
"""The parts of a set that hold one entry for each example."""


def some(examples: Any, count: int, seed: int) -> Any:
    """``count`` of them, by chance, the same for the same seed; raises DataError if there are fewer."""
    if count > len(examples):
        raise DataError(f"images is {count}, and there are {len(examples)} training examples")
    kept = np.sort(np.random.default_rng(seed).permutation(len(examples))[:count])
    parts = {name: getattr(examples, name) for name in _LISTS[type(examples)]}
    return replace(examples, **{
        name: part[kept] if isinstance(part, np.ndarray) else [part[i] for i in kept] for name, part in parts.items()
    })  # fmt: skip


def _small(part: ImageSet, size: int) -> ImageSet:
    """With means of neighbouring pixels for pixels."""
    images = part.images_NCHW
    n, channels, height, width = images.shape
    if size > width or width % size or height % size:
        raise DataError(f"image_size is {size}, and images of {width} pixels can be had in whole parts of that alone")
    factor = width // size
    if factor == 1:
        return part
    blocks = images.reshape(n, channels, height // factor, factor, width // factor, factor)
    return replace(part, images_NCHW=blocks.mean((3, 5), dtype=np.float32).astype(images.dtype))


def prepared(
    name: str, folder: Path | None, *, size: int | None = None, images: int = 0, augment: bool = False, seed: int = 0
) -> Splits:
    """A data set with ``images`` training examples (all if 0), its images ``size`` pixels wide (as they are if None).

    Raises DataError, also for what the data set can't do.
    """
    options: dict[str, Any] = {} if name == "multi30k" else {"augment": augment}
    if name == "multi30k" and (augment or size is not None):
        raise DataError(f"{'augment' if augment else 'image_size'} is of no effect: multi30k has no images")
    if name in SIZED and size is not None:
        options["image_size"] = size
    splits = load(name, folder, **options)
    if images:
        splits = replace(splits, train=some(splits.train, images, seed))
    if not isinstance(splits.train, ImageSet):
        return splits
    parts = [part if size is None else _small(part, size) for part in (splits.train, splits.validation, splits.test)]
    statistics = Statistics.of(parts[0].images_NCHW)
    train, validation, test = (replace(part, statistics=statistics) for part in parts)
    return replace(splits, train=train, validation=validation, test=test)
