"""CIFAR's published forms, good and broken."""

import pickle

import numpy as np
import public_forms as forms
import pytest
import torch
from adagp.experiments.data import Batches, DataError, load

TEN = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
HUNDRED = ["train", "test"]
FORMS = {
    "10-python": ("cifar10", "cifar-10-batches-py", TEN,
                  lambda folder, rng: forms.cifar_python(folder, rng, TEN, b"labels", 10)),
    "10-binary": ("cifar10", "cifar-10-batches-bin", TEN,
                  lambda folder, rng: forms.cifar_binary(folder, rng, TEN, 1, 10)),
    "100-python": ("cifar100", "cifar-100-python", HUNDRED,
                   lambda folder, rng: forms.cifar_python(folder, rng, HUNDRED, b"fine_labels", 100, 20)),
    "100-binary": ("cifar100", "cifar-100-binary", HUNDRED,
                   lambda folder, rng: forms.cifar_binary(folder, rng, HUNDRED, 2, 100, 20)),
}  # fmt: skip


@pytest.fixture(params=FORMS)
def form(request, tmp_path, rng):
    name, inner, files, write = FORMS[request.param]
    return name, tmp_path, inner, files, write(tmp_path / inner, rng)


def of(examples):
    """Images and labels in memory, in a comparable order."""
    return sorted((image.tobytes(), int(y)) for image, y in zip(examples.images_NCHW, examples.labels_N, strict=True))


@pytest.mark.parametrize("outside", (True, False))
def test_every_image_is_in_one_part_with_its_label(form, outside):
    name, folder, inner, files, contents = form
    splits = load(name, folder if outside else folder / inner, validation=0.2)
    written = {
        file: sorted((x.tobytes(), y) for x, y in zip(images, labels, strict=True))
        for file, (images, labels) in contents.items()
    }
    assert of(splits.test) == written[files[-1]]
    assert sorted(of(splits.train) + of(splits.validation)) == sorted(
        example for file in files[:-1] for example in written[file]
    )
    assert (len(splits.train), len(splits.validation)) == (16, 4)
    assert splits.n_classes == {"cifar10": 10, "cifar100": 100}[name]


def test_channels_are_normalised_by_training_images(form):
    name, folder, *_ = form
    train = load(name, folder, validation=0.2).train
    x, y = next(iter(Batches(train, 16, 0, 0)))
    assert x.shape == (16, 3, 32, 32) and y.shape == (16,) and y.dtype == torch.int64
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0)


def test_a_file_that_is_missing_is_named(form):
    name, folder, inner, files, _ = form
    last = next((folder / inner).glob(f"{files[-1]}*"))
    last.unlink()
    with pytest.raises(DataError, match=f"{last.name} isn't there.*cs.toronto.edu") as error:
        load(name, folder)
    assert "\n" not in str(error.value)


def test_a_file_that_is_cut_off_is_named(form):
    name, folder, inner, files, _ = form
    last = next((folder / inner).glob(f"{files[-1]}*"))
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.raises(DataError, match=f"can't read .*{last.name}.*cs.toronto.edu") as error:
        load(name, folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ("cifar10", "cifar100"))
def test_what_must_be_in_a_folder_is_told(name, tmp_path):
    for folder, why in ((None, "no folder is given"), (tmp_path / "x", "isn't there"), (tmp_path, "holds neither")):
        with pytest.raises(DataError, match=f"{why}.*{name[5:].replace('1', '-1', 1)}.*cs.toronto.edu"):
            load(name, folder)


class Evil:
    def __reduce__(self):
        return print, ("called",)


@pytest.mark.parametrize("batch, why", (
    ({b"data": Evil()}, "wants .*builtin.*print"),
    ({b"labels": []}, "has no b'data'"),
    ({b"data": np.zeros((2, 3072), np.uint8)}, "has no b'labels'"),
    ({b"data": np.zeros((2, 3072)), b"labels": [1, 2]}, "data is float64"),
    ({b"data": np.zeros((2, 3000), np.uint8), b"labels": [1, 2]}, r"\(2, 3000\)"),
    ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, "2 images, and labels"),
    ([1, 2], "list indices"),
))  # fmt: skip
@pytest.mark.parametrize("protocol", (2, 4))
def test_a_pickle_holds_arrays_and_nothing_that_is_called(batch, why, protocol, tmp_path, rng, capsys):
    forms.cifar_python(tmp_path / "cifar-10-batches-py", rng, TEN, b"labels", 10)
    (tmp_path / "cifar-10-batches-py/data_batch_3").write_bytes(pickle.dumps(batch, protocol))
    with pytest.raises(DataError, match=f"data_batch_3.*{why}"):
        load("cifar10", tmp_path)
    assert "called" not in capsys.readouterr().out


def test_labels_beyond_the_classes_are_refused(tmp_path, rng):
    forms.cifar_binary(tmp_path / "cifar-10-batches-bin", rng, TEN, 1, 200)
    with pytest.raises(DataError, match=r"labels are from .* of 10 classes"):
        load("cifar10", tmp_path, validation=0.2)
