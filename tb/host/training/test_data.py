"""Data sets in the forms that people have them, and what is said when they are not there."""

import gzip
import os
import pickle
import random
import struct

import numpy as np
import pytest
from adagp.host.training.data import DataError, load_dataset

SEED = 6


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


class Bomb:
    """A pickle that runs a function when it is read."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def cifar_folder(tmp_path, batch):
    """The six files of CIFAR-10, the third with other content."""
    whole = pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]})
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (tmp_path / name).write_bytes(batch if name == "data_batch_3" else whole)


def test_a_pickle_cannot_run_code(tmp_path):
    cifar_folder(tmp_path, pickle.dumps({b"data": Bomb(tmp_path / "exploded"), b"labels": [0, 1]}))
    with pytest.raises(DataError, match=r"can't read .*data_batch_3: it wants posix\.mkdir"):
        load_dataset("cifar10", tmp_path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("batch", [
    b"", b"junk", b"\x80\x05.", b"(", b"cos\n", b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.", pickle.dumps([1]),
    pickle.dumps({}), pickle.dumps({b"data": None, b"labels": None}), pickle.dumps({b"data": "x", b"labels": [0]}),
    pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [[], [1]]}),
    pickle.dumps({b"data": np.zeros((2, 30), np.uint8), b"labels": [0, 1]}),
])  # fmt: skip
def test_a_broken_pickle_gets_a_line(tmp_path, batch):
    cifar_folder(tmp_path, batch)
    with pytest.raises(DataError, match=r"can't read .*data_batch_3") as error:
        load_dataset("cifar10", tmp_path)
    assert "\n" not in str(error.value)


def test_a_flipped_bit_of_an_archive_gets_a_line_or_does_not_matter(tmp_path):
    print(f"seed {SEED}")
    rng, path = random.Random(SEED), tmp_path / "cifar10.npz"
    x, y = np.zeros((4, 3, 2, 2), np.uint8), np.arange(4)
    np.savez_compressed(path, x_train=x, y_train=y, x_test=x, y_test=y)
    whole, refused = path.read_bytes(), 0
    for flip in rng.sample(range(8 * len(whole)), 800):
        broken = bytearray(whole)
        broken[flip // 8] ^= 1 << flip % 8
        path.write_bytes(broken)
        try:
            load_dataset("cifar10", tmp_path)
        except DataError:
            refused += 1
    assert refused > 100


LABELS = {
    "fewer": ([0, 1, 1, 0], [1, 0], 2),
    "a gap within the published": ([0, 1, 2, 9], [1, 9], 10),
    "more without gaps": ([*range(12)], [3, 11], 12),
    "one wrong": ([0, 1, 2, 200], [1, 2], "the largest label, 200, would make 201 classes, but 197 of them"),
    "one wrong to test": ([0, 1, 2, 3], [1, 12], "the largest label, 12, would make 13 classes, but 9 of them"),
}


@pytest.mark.parametrize("case", LABELS)
def test_classes_are_those_of_the_labels_and_gaps_beyond_the_published_are_told(tmp_path, case):
    train, test, expected = LABELS[case]
    arrays = {"x_train": np.zeros((len(train), 3, 2, 2), np.uint8), "x_test": np.zeros((len(test), 3, 2, 2), np.uint8)}
    np.savez(tmp_path / "cifar10.npz", **arrays, y_train=np.array(train), y_test=np.array(test))
    if isinstance(expected, int):
        data = load_dataset("cifar10", tmp_path)
        assert data.n_classes == expected
        assert str(data) == (f"cifar10: {len(train)} training and {len(test)} test images of 3x2x2, {expected} classes")
    else:
        with pytest.raises(DataError, match=expected):
            load_dataset("cifar10", tmp_path)


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
