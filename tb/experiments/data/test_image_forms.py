"""Other sets of images: ImageNet's folders, JPEG files in .npz, digits, Fashion-MNIST."""

import gzip
import struct
from io import BytesIO

import numpy as np
import public_forms as forms
import pytest
import torch
from adagp.experiments.data import Batches, DataError, load
from adagp.experiments.data.cifar import jpeg_quality
from adagp.experiments.data.images import opened, pixels
from PIL import Image


def test_imagenet_has_classes_by_folder(tmp_path, rng):
    splits = load("imagenet", forms.imagenet(tmp_path, rng), image_size=24)
    assert (len(splits.train), len(splits.validation), len(splits.test), splits.n_classes) == (18, 2, 4, 2)
    assert not set(splits.train.paths) & set(splits.validation.paths)
    for part in (splits.train, splits.validation, splits.test):
        assert [path.parent.name for path in part.paths] == [f"n0{label + 1}" for label in part.labels_N]
    x, y = next(iter(Batches(splits.test, 4, 0, 0, shuffle=False)))
    assert x.shape == (4, 3, 24, 24) and y.tolist() == [0, 0, 1, 1]


def test_imagenets_middle_is_what_is_seen(tmp_path, rng):
    splits = load("imagenet", forms.imagenet(tmp_path, rng), image_size=35)
    x, _ = splits.test.batch(np.array([0]), None)
    image = pixels(opened(splits.test.paths[0], "an image"))  # 50 x 40; the crop is 35 x 35, in its middle
    middle = splits.test.statistics.normalised(image[None, :, 2:38, 7:43])
    # Half a pixel off on each side: the crop resembles the mean of its neighbours.
    mean = torch.nn.functional.avg_pool2d(middle, 2, 1)
    torch.testing.assert_close(x, mean, atol=0.04, rtol=0)  # twice rounded to bytes


def test_imagenet_varies_by_epoch_and_not_by_batch(tmp_path, rng):
    train = load("imagenet", forms.imagenet(tmp_path, rng), image_size=24, augment=True).train
    one, again, other = (next(iter(Batches(train, 18, 0, epoch)))[0] for epoch in (0, 0, 1))
    assert torch.equal(one, again) and one.shape == other.shape and not torch.equal(one, other)
    parts = torch.cat([x for x, _ in Batches(train, 5, 0, 0)])
    assert torch.equal(parts, one)


def test_imagenets_errors_name_what_is_missing(tmp_path, rng):
    for folder, why in ((None, "no folder"), (tmp_path, "train isn't there.*image-net.org")):
        with pytest.raises(DataError, match=why):
            load("imagenet", folder)
    folder = forms.imagenet(tmp_path / "i", rng)
    (folder / "val/n03").mkdir()
    with pytest.raises(DataError, match="n03 is a class that train has not"):
        load("imagenet", folder)
    (folder / "val/n03").rmdir()
    for path in folder.glob("val/*/*"):
        path.unlink()
    with pytest.raises(DataError, match="val holds no CLASS/"):
        load("imagenet", folder)
    broken = next(folder.glob("train/*/*"))
    broken.write_bytes(b"no image")
    with pytest.raises(DataError, match=f"can't read .*{broken.name}"):
        pixels(opened(broken, broken))


def test_compact_files_hold_images(tmp_path, rng):
    path = forms.compact(tmp_path / "tiny_imagenet10_jpeg.npz", rng, {"train": 10, "val": 3})
    for folder in (tmp_path, path):
        splits = load("tiny-imagenet10", folder)
        assert (len(splits.train), len(splits.validation), len(splits.test), splits.n_classes) == (9, 1, 3, 3)
    with np.load(path) as file:
        first = file["val_jpeg"].tobytes()[: file["val_off"][1]]
    assert np.array_equal(splits.test.images_NCHW[0], pixels(opened(first, "first")))
    forms.compact(tmp_path / "cifar10_jpeg.npz", rng, {"train": 10, "test": 3}, 32, names=np.array(list("abcd")))
    assert load("cifar10", tmp_path).n_classes == 4


@pytest.mark.parametrize("changes, why", (
    ({"val_off": np.array([0, 9])}, "val_off doesn't divide val_jpeg into 3"),
    ({"val_off": np.array([0, 9, 8, 20])}, "val_off doesn't divide"),
    ({"val_off": np.array([0, 9, 20, 1 << 40])}, "val_off doesn't divide"),
    ({"val_jpeg": np.zeros(10_000_000, np.uint8)}, "image 0 of val_jpeg"),
    ({"val_y": np.array([0, 1, -1], np.int64)}, "labels are from -1"),
    ({"val_y": np.array([{}] * 3)}, "allow_pickle"),
))  # fmt: skip
def test_broken_compact_files_are_refused(changes, why, tmp_path, rng):
    forms.compact(tmp_path / "tiny_imagenet10_jpeg.npz", rng, {"train": 10, "val": 3}, **changes)
    with pytest.raises(DataError, match=why):
        load("tiny-imagenet10", tmp_path)


def test_a_compact_file_lacks_a_part(tmp_path, rng):
    with pytest.raises(DataError, match=r"holds no tiny_imagenet10_jpeg.npz"):
        load("tiny-imagenet10", tmp_path)
    forms.compact(tmp_path / "tiny_imagenet10_jpeg.npz", rng, {"train": 10, "test": 3})
    with pytest.raises(DataError, match=r"val_jpeg.*expected"):
        load("tiny-imagenet10", tmp_path)
    (tmp_path / "tiny_imagenet10_jpeg.npz").write_bytes(b"nothing")
    with pytest.raises(DataError, match="can't read"):
        load("tiny-imagenet10", tmp_path)


def test_digits_need_no_file():
    splits = load("digits")
    assert len(splits.train) + len(splits.validation) == 1437 and len(splits.test) == 360
    x, _ = next(iter(Batches(splits.train, len(splits.train), 0, 0)))
    assert x.shape[1:] == (1, 8, 8) and abs(float(x.mean())) < 1e-5


def test_fashion_mnist_is_read_as_the_host_reads_it(tmp_path, rng):
    with pytest.raises(DataError, match=r"no folder is given.*zalandoresearch"):
        load("fashion-mnist")
    with pytest.raises(DataError, match=r"no train-images.*zalandoresearch"):
        load("fashion-mnist", tmp_path)
    for part, count in (("train", 20), ("t10k", 4)):
        images, labels = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), np.arange(count, dtype=np.uint8) % 10
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))
    splits = load("fashion-mnist", tmp_path)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (18, 2, 4)
    assert splits.train.images_NCHW.shape == (18, 1, 28, 28)


def test_an_unknown_name_is_refused():
    with pytest.raises(DataError, match="no data set 'mnist'; there are cifar10, "):
        load("mnist")


@pytest.mark.parametrize("quality", [30, 75, 95])
def test_the_quality_of_compressed_images_is_found(quality, tmp_path):
    written = BytesIO()
    Image.new("RGB", (32, 32), (9, 80, 200)).save(written, "JPEG", quality=quality)
    raw = np.frombuffer(written.getvalue(), np.uint8)
    np.savez(tmp_path / "cifar10_jpeg.npz", train_jpeg=raw, train_off=np.array([0, len(raw)]))
    assert jpeg_quality(tmp_path) == jpeg_quality(tmp_path / "cifar10_jpeg.npz") == quality
    assert jpeg_quality(tmp_path.parent) is None
