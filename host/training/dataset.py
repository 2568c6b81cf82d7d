"""A data set in memory: images and labels, checked when made, with a digest of the part that a run uses."""

import hashlib
from dataclasses import dataclass

import numpy as np

__all__ = ["DataError", "Dataset", "array_digest", "checked_dataset"]

MAX_CLASSES = 65536


class DataError(ValueError):
    """Data that can't be found or read; one line says which file or array and why."""


@dataclass(frozen=True)
class Dataset:
    """Images as float32 NCHW in [0, 1], labels as int64; a training and a test part."""

    name: str
    train_x_NCHW: np.ndarray
    train_y_N: np.ndarray
    test_x_NCHW: np.ndarray
    test_y_N: np.ndarray
    n_classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of one image."""
        return self.train_x_NCHW.shape[1:]  # type: ignore[return-value]  # always four dimensions

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape))
        return (
            f"{self.name}: {len(self.train_y_N):,} training and {len(self.test_y_N):,} test images of {size},"
            f" {self.n_classes} classes"
        )


def array_digest(*arrays: np.ndarray) -> str:
    """SHA-256 of types, shapes and elements."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _images(name: str, x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4:
        raise DataError(f"{name}: images of {x.ndim} dimensions; 3 or 4 expected")
    scale = 255 if x.dtype == np.uint8 else 1
    x = np.ascontiguousarray(x, np.float32) / scale
    if not (x.size and np.isfinite(x).all() and x.min() >= 0 and x.max() <= 1):
        raise DataError(f"{name}: images must be bytes, or numbers from 0 to 1")
    return x


def _labels(name: str, y: np.ndarray) -> np.ndarray:
    y = np.asarray(y).reshape(-1)
    if not (np.issubdtype(y.dtype, np.integer) and y.size and y.min() >= 0 and y.max() < MAX_CLASSES):
        raise DataError(f"{name}: labels must be integers from 0 to {MAX_CLASSES - 1}")
    return y.astype(np.int64)


def _count_classes(name: str, train_y_N: np.ndarray, test_y_N: np.ndarray, published: int) -> int:
    """Largest label + 1; beyond the published classes each label must occur among the training labels.

    So a smaller or larger set in the same format is taken as it is, and one wrong label doesn't add outputs.
    """
    n_classes = int(max(train_y_N.max(), test_y_N.max())) + 1
    missing = np.flatnonzero(np.bincount(train_y_N, minlength=n_classes) == 0)
    if n_classes > published and len(missing):
        raise DataError(
            f"{name}: the largest label, {n_classes - 1}, would make {n_classes} classes, but {len(missing)} of them"
            f" have no training image, label {missing[0]} first: labels must be 0 to classes - 1"
        )
    return n_classes


def checked_dataset(
    name: str, train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray, published: int
) -> Dataset:
    """Make a data set of arrays as they were read; ``published``: its classes as published. Raises DataError."""
    train_y_N, test_y_N = _labels(name, train_y), _labels(name, test_y)
    train_x_NCHW, test_x_NCHW = _images(name, train_x), _images(name, test_x)
    if train_x_NCHW.shape[1:] != test_x_NCHW.shape[1:]:
        raise DataError(
            f"{name}: images to train on are {train_x_NCHW.shape[1:]}, those to test on {test_x_NCHW.shape[1:]}"
        )
    if len(train_x_NCHW) != len(train_y_N) or len(test_x_NCHW) != len(test_y_N):
        raise DataError(
            f"{name}: {len(train_x_NCHW)} + {len(test_x_NCHW)} images but {len(train_y_N)} + {len(test_y_N)} labels"
        )
    n_classes = _count_classes(name, train_y_N, test_y_N, published)
    return Dataset(name, train_x_NCHW, train_y_N, test_x_NCHW, test_y_N, n_classes)
