"""CIFAR-10 and CIFAR-100, in the versions for Python and in the binary ones, and CIFAR-10 in JPEG files."""

import pickle
from pathlib import Path

import numpy as np

from ...host.training.data import DataError
from .compact import read_compact
from .images import Part, image_splits
from .splits import VALIDATION, Splits, needed_folder

__all__ = ["cifar10", "cifar100"]

URL = "https://www.cs.toronto.edu/~kriz/cifar.html"
IMAGE_BYTES = 3 * 32 * 32
COMPACT = "cifar10_jpeg.npz"

_RECONSTRUCT = np.empty(0).__reduce__()[0]  # type: ignore[index]  # numpy's own; its module isn't public


class _Arrays(pickle.Unpickler):
    """Reads numpy arrays, and what Python has built in; a pickle can't call anything else."""

    def find_class(self, module: str, name: str):
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _RECONSTRUCT
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return lambda text, encoding="latin1": text.encode("latin1")
        raise pickle.UnpicklingError(f"it wants {module}.{name}, and arrays have no use for that")


def _read_pickle(path: Path, label: bytes) -> Part:
    try:
        with path.open("rb") as file:
            batch = _Arrays(file, encoding="bytes").load()
        images = np.asarray(batch[b"data"])
        labels = np.asarray(batch[label])
        if images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != IMAGE_BYTES:
            raise ValueError(f"data is {images.dtype} {images.shape}; bytes of N x {IMAGE_BYTES} expected")
        if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
            raise ValueError(f"{len(images)} images, and labels {labels.dtype} {labels.shape}")
    except FileNotFoundError:
        raise DataError(f"{path} isn't there; the whole version for Python is at {URL}") from None
    except KeyError as error:
        raise DataError(f"can't read {path}: it has no {error.args[0]!r}") from None
    except Exception as error:  # whatever a broken pickle makes of itself
        raise DataError(f"can't read {path}: {error or type(error).__name__}; it is published at {URL}") from None
    return images.reshape(-1, 3, 32, 32), labels.astype(np.int64)


def _read_binary(path: Path, n_labels: int) -> Part:
    """Records of ``n_labels`` bytes, of which the last is the class, and of an image."""
    if not path.is_file():
        raise DataError(f"{path} isn't there; the whole binary version is at {URL}")
    raw, record = np.fromfile(path, np.uint8), n_labels + IMAGE_BYTES
    if not raw.size or raw.size % record:
        raise DataError(f"can't read {path}: {raw.size} bytes aren't records of {record}; it is published at {URL}")
    records = raw.reshape(-1, record)
    return records[:, n_labels:].reshape(-1, 3, 32, 32), records[:, n_labels - 1].astype(np.int64)


def _joined(parts: list[Part]) -> Part:
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def _inside(folder: Path, name: str, first: str) -> Path | None:
    """Where a version's files are: in a folder of its name, or in ``folder`` itself."""
    return next((place for place in (folder / name, folder) if (place / first).is_file()), None)


def cifar10(folder: Path | None, *, validation: float = VALIDATION, seed: int = 0, augment: bool = False) -> Splits:
    """50,000 images to train and validate with, 10,000 to test; 32x32, 10 classes."""
    files = f"cifar-10-batches-py, cifar-10-batches-bin or {COMPACT}"
    folder = needed_folder("cifar10", folder, files, URL)
    if folder.suffix == ".npz" or (folder / COMPACT).is_file():
        train, test, n_classes = read_compact(folder if folder.is_file() else folder / COMPACT, "test")
        return image_splits("cifar10", train, test, n_classes, validation, seed, augment)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    if place := _inside(folder, "cifar-10-batches-py", names[0]):
        *parts, test = [_read_pickle(place / name, b"labels") for name in names]
    elif place := _inside(folder, "cifar-10-batches-bin", f"{names[0]}.bin"):
        *parts, test = [_read_binary(place / f"{name}.bin", 1) for name in names]
    else:
        raise DataError(f"cifar10: {folder} holds neither data_batch_1 nor data_batch_1.bin of {files}, from {URL}")
    return image_splits("cifar10", _joined(parts), test, 10, validation, seed, augment)


def cifar100(folder: Path | None, *, validation: float = VALIDATION, seed: int = 0, augment: bool = False) -> Splits:
    """50,000 images to train and validate with, 10,000 to test; 32x32, 100 (fine) classes."""
    files = "cifar-100-python or cifar-100-binary"
    folder = needed_folder("cifar100", folder, files, URL)
    if place := _inside(folder, "cifar-100-python", "train"):
        train, test = (_read_pickle(place / name, b"fine_labels") for name in ("train", "test"))
    elif place := _inside(folder, "cifar-100-binary", "train.bin"):
        train, test = (_read_binary(place / f"{name}.bin", 2) for name in ("train", "test"))
    else:
        raise DataError(f"cifar100: {folder} holds neither train nor train.bin of {files}, from {URL}")
    return image_splits("cifar100", train, test, 100, validation, seed, augment)
