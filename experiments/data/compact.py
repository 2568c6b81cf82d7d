"""JPEG files one behind the other in one .npz, as smaller copies of data sets are passed on.

For each part: PART_jpeg, bytes of all files; PART_off, where each begins and the last ends; PART_y, labels.
"""

import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np

from ...host.training.data import DataError
from .images import Part, image_splits, opened, pixels
from .splits import VALIDATION, Splits, needed_folder

__all__ = ["quality_of", "read_compact", "tiny_imagenet10"]

_NAMES = ("names", "name")
"""Arrays with names of classes, of which a file may have one."""


def read_compact(path: Path, test: str) -> tuple[Part, Part, int]:
    """The part ``train``, the part ``test``, and how many classes there are; raises DataError."""
    try:
        with np.load(path, allow_pickle=False) as file:
            parts = {part: [file[f"{part}_{kind}"] for kind in ("jpeg", "off", "y")] for part in ("train", test)}
            names = next((file[name] for name in _NAMES if name in file), None)
    except KeyError as error:
        raise DataError(f"can't read {path}: {error.args[0]}; train_jpeg, train_off, train_y and {test}_jpeg, ... "
                        "expected") from None  # fmt: skip
    except (OSError, EOFError, ValueError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"can't read {path}: {error}") from None
    images = {part: _images(path, part, *arrays) for part, arrays in parts.items()}
    labels = {part: arrays[2].astype(np.int64) for part, arrays in parts.items()}
    n_classes = int(max(y.max() for y in labels.values())) + 1 if names is None else len(names)
    return (images["train"], labels["train"]), (images[test], labels[test]), n_classes


def quality_of(path: Path) -> int | None:
    """The quality, by Pillow's scale, with which the first training image was compressed; None for another scale."""
    from PIL import Image

    with np.load(path, allow_pickle=False) as file:
        first, end = file["train_off"][:2]
        image = _tables(file["train_jpeg"][first:end].tobytes())
    for quality in range(100, 0, -1):
        written = BytesIO()
        Image.new("RGB", (8, 8)).save(written, "JPEG", quality=quality)
        if _tables(written.getvalue()) == image:
            return quality
    return None


def _tables(raw: bytes) -> dict:
    """Quantisation tables of a JPEG file."""
    from PIL import Image

    with Image.open(BytesIO(raw)) as file:
        return dict(file.quantization)  # type: ignore[attr-defined]  # JPEG files have it


def _images(path, part, jpeg, offsets, labels):
    rises = offsets.ndim == 1 and len(offsets) > 1 and (np.diff(offsets) > 0).all()
    if not (rises and offsets[0] >= 0 and offsets[-1] <= jpeg.size and len(labels) == len(offsets) - 1):
        raise DataError(f"can't read {path}: {part}_off doesn't divide {part}_jpeg into {len(labels)} files")
    raw = jpeg.tobytes()
    images = [
        pixels(opened(raw[offsets[i] : offsets[i + 1]], f"image {i} of {part}_jpeg in {path}"))
        for i in range(len(labels))
    ]
    if len({image.shape for image in images}) > 1:
        raise DataError(f"can't read {path}: images of {part}_jpeg aren't all of one size")
    return np.stack(images)


def tiny_imagenet10(
    folder: Path | None, *, validation: float = VALIDATION, seed: int = 0, augment: bool = False
) -> Splits:
    """Ten classes of Tiny ImageNet, 64x64, its ``val`` part to test with; ``folder`` may be the file itself."""
    name = "tiny_imagenet10_jpeg.npz"
    files = f"{name} (train_jpeg, train_off, train_y, val_jpeg, val_off, val_y: JPEG files of ten classes)"
    folder = needed_folder("tiny-imagenet10", folder, files, "http://cs231n.stanford.edu/tiny-imagenet-200.zip")
    path = folder if folder.is_file() else folder / name
    if not path.is_file():
        raise DataError(f"tiny-imagenet10: {folder} holds no {files}")
    train, test, n_classes = read_compact(path, "val")
    return image_splits("tiny-imagenet10", train, test, n_classes, validation, seed, augment)
