"""Data sets: digits (ships with scikit-learn) and the files people have of Fashion-MNIST and CIFAR-10."""

import gzip
import pickle
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["DATASETS", "DataError", "Dataset", "load_dataset"]


MAX_CLASSES = 65536


class DataError(ValueError):
    """Data that can't be found or read; one line says what was looked for and where."""


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
    return _dataset("fashion-mnist", train_x, train_y, test_x, test_y)


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
    images, labels = [], []
    for path in batches:
        try:
            with path.open("rb") as file:
                batch = pickle.load(file, encoding="bytes")
            images.append(np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, 32, 32))
            labels.append(np.asarray(batch[b"labels"], np.int64))
        except (OSError, pickle.UnpicklingError, LookupError, ValueError, TypeError, EOFError, ImportError) as error:
            raise DataError(f"can't read {path}: {error}") from None
    return _dataset(
        "cifar10", np.concatenate(images[:5]), np.concatenate(labels[:5]), images[5], labels[5]
    )  # fmt: skip


def _decode_jpegs(file, part: str) -> np.ndarray:
    import io

    import matplotlib.image

    raw, offsets = file[f"{part}_jpeg"].tobytes(), file[f"{part}_off"]
    images = [
        matplotlib.image.imread(io.BytesIO(raw[offsets[i] : offsets[i + 1]]), format="jpg")
        for i in range(len(offsets) - 1)
    ]
    return np.stack(images)


def _npz(name: str, path: Path) -> Dataset:
    """x_train, y_train, x_test, y_test as Keras names them, or {train,test}_{x,y}, or JPEG bytes."""
    try:
        file = np.load(path)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("one array instead of several with names")
        if "train_jpeg" in file:
            train, test = _decode_jpegs(file, "train"), _decode_jpegs(file, "test")
            return _dataset(name, train, file["train_y"], test, file["test_y"])
        for names in (("x_train", "y_train", "x_test", "y_test"), ("train_x", "train_y", "test_x", "test_y")):
            if all(key in file for key in names):
                return _dataset(name, *(file[key] for key in names))
        raise ValueError(f"arrays x_train, y_train, x_test, y_test expected, found {', '.join(file.files)}")
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"can't read {path}: {error}") from None


def _dataset(name, train_x, train_y, test_x, test_y) -> Dataset:
    def images(x):
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

    def labels(y):
        y = np.asarray(y).reshape(-1)
        if not (np.issubdtype(y.dtype, np.integer) and y.size and y.min() >= 0 and y.max() < MAX_CLASSES):
            raise DataError(f"{name}: labels must be integers from 0 to {MAX_CLASSES - 1}")
        return y.astype(np.int64)

    train_y, test_y = labels(train_y), labels(test_y)
    train_x, test_x = images(train_x), images(test_x)
    if train_x.shape[1:] != test_x.shape[1:]:
        raise DataError(f"{name}: images to train on are {train_x.shape[1:]}, those to test on {test_x.shape[1:]}")
    if len(train_x) != len(train_y) or len(test_x) != len(test_y):
        raise DataError(f"{name}: {len(train_x)} + {len(test_x)} images but {len(train_y)} + {len(test_y)} labels")
    return Dataset(name, train_x, train_y, test_x, test_y, int(max(train_y.max(), test_y.max())) + 1)


DATASETS = {"digits": _digits, "fashion-mnist": _fashion_mnist, "cifar10": _cifar10}


def load_dataset(name: str, folder: Path | None = None) -> Dataset:
    """The data set called ``name``, read from ``folder`` where it isn't shipped; raises DataError."""
    if name not in DATASETS:
        raise DataError(f"no data set {name!r}; there are: {', '.join(DATASETS)}")
    return DATASETS[name](folder)
