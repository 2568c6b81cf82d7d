"""Data sets: digits, which ships with scikit-learn, and the published files of Fashion-MNIST and CIFAR-10."""

import gzip
import io
import struct
import zlib
from pathlib import Path

import numpy as np

from .cifar_batches import read_cifar_batch
from .dataset import DataError, Dataset, checked_dataset

__all__ = ["DATASETS", "DataError", "Dataset", "load_dataset"]

CLASSES = 10
"""Classes that each of the data sets is published with."""


def _digits(folder: Path | None) -> Dataset:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x_NCHW = (digits.images[:, None] / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(x_NCHW))  # the file is ordered by writer
    train, test = order[:1437], order[1437:]
    y_N = digits.target.astype(np.int64)
    return Dataset("digits", x_NCHW[train], y_N[train], x_NCHW[test], y_N[test], 10)


def _read_idx(path: Path) -> np.ndarray:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        zero, kind, rank = struct.unpack(">HBB", raw[:4])
        shape = struct.unpack(f">{rank}I", raw[4 : 4 + 4 * rank])
        if zero or kind != 8:
            raise ValueError("not an IDX file of bytes")
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)
    except (OSError, EOFError, ValueError, struct.error, zlib.error) as error:
        raise DataError(f"can't read {path}: {error}") from None


def _first(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).exists()), None)


def _need_folder(name: str, folder: Path | None) -> Path:
    if folder is None:
        raise DataError(f"{name} is not shipped: pass --data-dir with the folder that holds its files")
    if not folder.is_dir():
        raise DataError(f"{folder} isn't a folder: --data-dir is that of the data set's files")
    return folder


def _fashion_mnist(folder: Path | None) -> Dataset:
    folder = _need_folder("fashion-mnist", folder)
    parts = []
    for part in ("train", "t10k"):
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"):
            path = _first(folder, f"{part}-{kind}.gz", f"{part}-{kind}")
            if path is None:
                archive = _first(folder, "fashion-mnist.npz", "fashion_mnist.npz")
                if archive is not None:
                    return _npz("fashion-mnist", archive)
                raise DataError(f"no {part}-{kind}[.gz] (nor fashion-mnist.npz) in {folder}")
            parts.append(_read_idx(path))
    train_x, train_y, test_x, test_y = parts
    return checked_dataset("fashion-mnist", train_x, train_y, test_x, test_y, CLASSES)


def _cifar10(folder: Path | None) -> Dataset:
    folder = _need_folder("cifar10", folder)
    inner = folder / "cifar-10-batches-py"
    folder = inner if inner.is_dir() else folder
    batches = [folder / f"data_batch_{i}" for i in range(1, 6)] + [folder / "test_batch"]
    if not all(path.exists() for path in batches):
        archive = _first(folder, "cifar10.npz", "cifar-10.npz", "cifar10_jpeg.npz")
        if archive is None:
            raise DataError(f"neither data_batch_1..5 and test_batch nor cifar10.npz in {folder}")
        return _npz("cifar10", archive)
    parts = [read_cifar_batch(path, b"labels") for path in batches]
    train_x, train_y = (np.concatenate(arrays) for arrays in zip(*parts[:5], strict=True))
    return checked_dataset("cifar10", train_x, train_y, *parts[5], CLASSES)


def _decode_jpegs(file, part: str) -> np.ndarray:
    import matplotlib.image

    raw, offsets = file[f"{part}_jpeg"].tobytes(), file[f"{part}_off"]
    images = [
        matplotlib.image.imread(io.BytesIO(raw[offsets[i] : offsets[i + 1]]), format="jpg")
        for i in range(len(offsets) - 1)
    ]
    return np.stack(images)


def _npz(name: str, path: Path) -> Dataset:
    """Read x_train, y_train, x_test, y_test as Keras names them, or {train,test}_{x,y}, or JPEG bytes."""
    try:
        file = np.load(path)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("one array instead of several with names")
        if "train_jpeg" in file:
            train, test = _decode_jpegs(file, "train"), _decode_jpegs(file, "test")
            return checked_dataset(name, train, file["train_y"], test, file["test_y"], CLASSES)
        for names in (("x_train", "y_train", "x_test", "y_test"), ("train_x", "train_y", "test_x", "test_y")):
            if all(key in file for key in names):
                train_x, train_y, test_x, test_y = (file[key] for key in names)
                return checked_dataset(name, train_x, train_y, test_x, test_y, CLASSES)
        raise ValueError(f"arrays x_train, y_train, x_test, y_test expected, found {', '.join(file.files)}")
    except DataError:
        raise
    except Exception as error:  # a damaged archive can make numpy and the decoder raise anything
        raise DataError(f"can't read {path}: {error}") from None


DATASETS = {"digits": _digits, "fashion-mnist": _fashion_mnist, "cifar10": _cifar10}


def load_dataset(name: str, folder: Path | None = None) -> Dataset:
    """Load the data set called ``name`` from ``folder``, or without one if it is shipped; raises DataError."""
    if name not in DATASETS:
        raise DataError(f"no data set {name!r}; there are: {', '.join(DATASETS)}")
    return DATASETS[name](folder)
