"""Data sets in the forms that people have them, and what is said when they are not there."""

import gzip
import pickle
import struct

import numpy as np
import pytest
from adagp.host.training.data import DataError, load_dataset


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def images():
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (12, 28, 28), np.uint8), rng.integers(0, 10, 12, np.uint8)


def test_digits_is_shipped_and_split_once():
    data = load_dataset("digits")
    assert data.shape == (1, 8, 8) and len(data.train_y_N) == 1437 and len(data.test_y_N) == 360
    assert data.train_x_NCHW.min() == 0 and data.train_x_NCHW.max() == 1
    assert (np.bincount(data.test_y_N) > 20).all()  # every class is in both parts


@pytest.mark.parametrize("packed", [True, False])
def test_fashion_mnist_from_idx(tmp_path, images, packed):
    x, y = images
    for part in ("train", "t10k"):
        for kind, array in (("images-idx3-ubyte", x), ("labels-idx1-ubyte", y)):
            name, raw = f"{part}-{kind}", idx(array)
            (tmp_path / (name + ".gz" * packed)).write_bytes(gzip.compress(raw) if packed else raw)
    data = load_dataset("fashion-mnist", tmp_path)
    assert data.shape == (1, 28, 28)
    np.testing.assert_array_equal(data.train_x_NCHW[:, 0], x.astype(np.float32) / 255)
    np.testing.assert_array_equal(data.test_y_N, y)


def test_cifar10_from_python_batches(tmp_path):
    rng = np.random.default_rng(2)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    planes = []
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        pixels = rng.integers(0, 256, (4, 3072), np.uint8)
        planes.append(pixels)
        (folder / name).write_bytes(pickle.dumps({b"data": pixels, b"labels": [0, 1, 2, 9]}))
    data = load_dataset("cifar10", tmp_path)
    assert data.train_x_NCHW.shape == (20, 3, 32, 32) and data.n_classes == 10
    np.testing.assert_array_equal(data.train_x_NCHW[5, 2, 31, 31], np.float32(planes[1][1, 3071]) / 255)


@pytest.mark.parametrize("channels_last", [True, False])
def test_cifar10_from_npz(tmp_path, channels_last):
    x = np.random.default_rng(3).integers(0, 256, (6, 3, 32, 32), np.uint8)
    stored = x.transpose(0, 2, 3, 1) if channels_last else x
    y = np.arange(6)
    np.savez(tmp_path / "cifar10.npz", x_train=stored, y_train=y[:, None], x_test=stored, y_test=y)
    data = load_dataset("cifar10", tmp_path)
    np.testing.assert_array_equal(data.train_x_NCHW, x.astype(np.float32) / 255)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("fashion-mnist", None, "no train-images-idx3-ubyte"),
        ("fashion-mnist", b"junk", "can't read"),
        ("cifar10", None, "neither data_batch_1..5"),
    ],
)
def test_bad_folders_are_told(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(DataError, match=says):
        load_dataset(name, tmp_path)
    with pytest.raises(DataError, match="pass --data-dir"):
        load_dataset(name)
    with pytest.raises(DataError, match="isn't a folder"):
        load_dataset(name, tmp_path / "missing")


def test_unknown_name_lists_the_known():
    with pytest.raises(DataError, match="digits, fashion-mnist, cifar10"):
        load_dataset("imagenet")
