"""CIFAR-10 and CIFAR-100, in the versions for Python and in the binary ones, and CIFAR-10 in JPEG files."""

from pathlib import Path

import numpy as np

from ...host.training.cifar_batches import CIFAR_URL, IMAGE_BYTES, read_cifar_batch
from ...host.training.dataset import DataError
from .compact import quality_of, read_compact
from .images import Part, image_splits
from .splits import VALIDATION, Splits, needed_folder

__all__ = ["cifar10", "cifar100", "jpeg_quality"]

COMPACT = "cifar10_jpeg.npz"


def _read_binary(path: Path, n_labels: int) -> Part:
    """Records of ``n_labels`` bytes, of which the last is the class, and of an image."""
    if not path.is_file():
        raise DataError(f"{path} isn't there; the whole binary version is at {CIFAR_URL}")
    raw, record = np.fromfile(path, np.uint8), n_labels + IMAGE_BYTES
    if not raw.size or raw.size % record:
        raise DataError(
            f"can't read {path}: {raw.size} bytes aren't records of {record}; it is published at {CIFAR_URL}"
        )
    records = raw.reshape(-1, record)
    return records[:, n_labels:].reshape(-1, 3, 32, 32), records[:, n_labels - 1].astype(np.int64)


def _joined(parts: list[Part]) -> Part:
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def _inside(folder: Path, name: str, first: str) -> Path | None:
    """The place of a version's files: a folder of its name, or ``folder`` itself."""
    return next((place for place in (folder / name, folder) if (place / first).is_file()), None)


def cifar10(folder: Path | None, *, validation: float = VALIDATION, seed: int = 0, augment: bool = False) -> Splits:
    """50,000 images to train and validate with, 10,000 to test; 32x32, 10 classes."""
    files = f"cifar-10-batches-py, cifar-10-batches-bin or {COMPACT}"
    folder = needed_folder("cifar10", folder, files, CIFAR_URL)
    if folder.suffix == ".npz" or (folder / COMPACT).is_file():
        train, test, n_classes = read_compact(folder if folder.is_file() else folder / COMPACT, "test")
        return image_splits("cifar10", train, test, n_classes, validation, seed, augment)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    if place := _inside(folder, "cifar-10-batches-py", names[0]):
        *parts, test = [read_cifar_batch(place / name, b"labels") for name in names]
    elif place := _inside(folder, "cifar-10-batches-bin", f"{names[0]}.bin"):
        *parts, test = [_read_binary(place / f"{name}.bin", 1) for name in names]
    else:
        raise DataError(
            f"cifar10: {folder} holds neither data_batch_1 nor data_batch_1.bin of {files}, from {CIFAR_URL}"
        )
    return image_splits("cifar10", _joined(parts), test, 10, validation, seed, augment)


def jpeg_quality(folder: Path) -> int | None:
    """The quality with which CIFAR-10's images in ``folder`` are compressed; None if they are as published."""
    path = folder if folder.suffix == ".npz" else folder / COMPACT
    return quality_of(path) if path.is_file() else None


def cifar100(folder: Path | None, *, validation: float = VALIDATION, seed: int = 0, augment: bool = False) -> Splits:
    """50,000 images to train and validate with, 10,000 to test; 32x32, 100 (fine) classes."""
    files = "cifar-100-python or cifar-100-binary"
    folder = needed_folder("cifar100", folder, files, CIFAR_URL)
    if place := _inside(folder, "cifar-100-python", "train"):
        train, test = (read_cifar_batch(place / name, b"fine_labels") for name in ("train", "test"))
    elif place := _inside(folder, "cifar-100-binary", "train.bin"):
        train, test = (_read_binary(place / f"{name}.bin", 2) for name in ("train", "test"))
    else:
        raise DataError(f"cifar100: {folder} holds neither train nor train.bin of {files}, from {CIFAR_URL}")
    return image_splits("cifar100", train, test, 100, validation, seed, augment)
