"""CIFAR's batches for Python, which are pickles; reading one can't run code that the file brings along."""

import pickle
from pathlib import Path

import numpy as np

from .dataset import DataError

__all__ = ["CIFAR_URL", "IMAGE_BYTES", "read_cifar_batch"]

CIFAR_URL = "https://www.cs.toronto.edu/~kriz/cifar.html"
IMAGE_BYTES = 3 * 32 * 32

_RECONSTRUCT = np.empty(0).__reduce__()[0]  # type: ignore[index]  # numpy's own; its module isn't public


class _Arrays(pickle.Unpickler):
    """An unpickler of numpy arrays and Python's built-in containers; a pickle can't call anything else."""

    def find_class(self, module: str, name: str):
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _RECONSTRUCT
        if (module, name) == ("_codecs", "encode"):  # as Python 3 writes bytes for Python 2
            return lambda text, encoding="latin1": text.encode("latin1")
        raise pickle.UnpicklingError(f"it wants {module}.{name}, and arrays have no use for that")


def read_cifar_batch(path: Path, label: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Images (bytes, NCHW) and labels of one file; ``label`` names the labels in it. Raises DataError."""
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
        raise DataError(f"{path} isn't there; the whole version for Python is at {CIFAR_URL}") from None
    except KeyError as error:
        raise DataError(f"can't read {path}: it has no {error.args[0]!r}") from None
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(f"can't read {path}: {error or type(error).__name__}; it is published at {CIFAR_URL}") from None
    return images.reshape(-1, 3, 32, 32), labels.astype(np.int64)
