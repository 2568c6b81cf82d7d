"""Pascal VOC: photographs, and boxes around the objects in them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...host.training.data import DataError
from ..average_precision import Objects
from .batches import Draw
from .folders import BILINEAR
from .images import opened, pixels, shares
from .splits import VALIDATION, Splits, needed_folder, split
from .voc_files import CLASSES, URL, Annotation, VocFiles

__all__ = ["VocSet", "voc"]

GREY = 128
"""Value of the borders beside an image that isn't square."""


@dataclass(frozen=True)
class VocSet:
    """Photographs by name, fitted into a square of ``image_size`` with grey borders.

    ``training``: without objects marked as difficult. ``augment``: mirrored half of the time.
    """

    files: VocFiles
    names: list[str]
    image_size: int
    training: bool
    augment: bool = False

    def __len__(self) -> int:
        return len(self.names)

    def batch(self, indexes: np.ndarray, draw: Draw) -> tuple[Tensor, list[Objects]]:
        """Images [N, 3, image_size, image_size] from 0 to 1, as YOLO-v3 has them, and each one's objects."""
        examples = [self._example(self.names[i], self.augment and bool(draw(int(i)).integers(2))) for i in indexes]
        images = torch.from_numpy(shares(np.stack([image for image, _ in examples])))
        return images, [objects for _, objects in examples]

    def _example(self, name, mirrored):
        annotation = self.files.annotation(name)
        raw, where = self.files.image(name)
        image, scale, (left, top) = _fitted(raw, where, self.image_size)
        if self.training:
            annotation = annotation.easy()
        boxes = annotation.boxes_K4 * scale + np.array([left, top, left, top])
        if mirrored:
            image = np.ascontiguousarray(image[:, :, ::-1])
            boxes[:, [0, 2]] = self.image_size - boxes[:, [2, 0]]
        return image, _objects(boxes, annotation)


def _objects(boxes, annotation: Annotation) -> Objects:
    return Objects(
        torch.from_numpy(boxes.astype(np.float32)), torch.from_numpy(annotation.classes_K),
        torch.from_numpy(annotation.difficult_K),
    )  # fmt: skip


def _fitted(raw: bytes, where: str, size: int) -> tuple[np.ndarray, float, tuple[int, int]]:
    """An image of ``size`` x ``size``, how much the photograph was scaled, and where in it it is."""
    photograph = opened(raw, where)
    scale = size / max(photograph.size)
    width, height = (max(1, round(side * scale)) for side in photograph.size)
    left, top = (size - width) // 2, (size - height) // 2
    image = np.full((3, size, size), GREY, np.uint8)
    image[:, top : top + height, left : left + width] = pixels(photograph.resize((width, height), BILINEAR))
    return image, scale, (left, top)


def voc(
    folder: Path | None, *, image_size: int = 416, validation: float = VALIDATION, seed: int = 0, augment: bool = False
) -> Splits:
    """Lists train, val and test in ImageSets/Main; where there is no test list, val is it, and some of train val.

    ``folder``: that of a year (VOC2007), or one that holds it or VOCdevkit, or a .tar file of either.
    ``image_size``: a multiple of 32. Raises DataError.
    """
    if image_size < 32 or image_size % 32:
        raise DataError(f"image_size is {image_size}, and must be a multiple of 32")
    files = VocFiles(needed_folder("voc", folder, "VOCdevkit with JPEGImages, Annotations and ImageSets/Main", URL))
    train, held = files.listed("train"), files.listed("val")
    if files.has_list("test"):
        test = files.listed("test")
    else:
        test = held
        mine, chosen = split(len(train), validation, seed)
        train, held = [train[i] for i in mine], [train[i] for i in chosen]
    if both := sorted((set(train) & set(held)) | (set(test) & (set(train) | set(held)))):
        raise DataError(f"voc: image {both[0]} is in two lists of {files.root}")
    return Splits(
        "voc", VocSet(files, train, image_size, True, augment), VocSet(files, held, image_size, False),
        VocSet(files, test, image_size, False), len(CLASSES),
    )  # fmt: skip
