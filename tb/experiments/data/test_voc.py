"""Pascal VOC's form, in folders and .tar files, good and broken."""

import public_forms as forms
import pytest
import torch
from adagp.experiments.data import Batches, DataError, load

LISTS = {"train": ["000001", "000002", "000003"], "val": ["000004"], "test": ["000005", "000006"]}


def places(tmp_path, rng, lists=LISTS):
    """The same year in each place where it may be."""
    year = forms.voc(tmp_path / "outer/VOCdevkit/VOC2007", rng, lists)
    yield from (year, year.parent, tmp_path / "outer")
    yield forms.tar_of(tmp_path / "outer", tmp_path / "outer.tar")
    yield forms.tar_of(year, tmp_path / "year.tar")


def test_lists_and_photographs_are_found_wherever_they_are(tmp_path, rng):
    first = None
    for place in places(tmp_path, rng):
        splits = load("voc", place, image_size=32)
        assert [part.names for part in (splits.train, splits.validation, splits.test)] == list(LISTS.values())
        images, objects = next(iter(Batches(splits.test, 2, 0, 0)))
        assert images.shape == (2, 3, 32, 32) and len(objects) == 2 and splits.n_classes == 20
        assert first is None or torch.equal(images, first)
        first = images


def test_photographs_and_boxes_are_fitted_into_a_square(tmp_path, rng):
    splits = load("voc", forms.voc(tmp_path / "VOC2007", rng, LISTS), image_size=160)
    images, (one, _) = next(iter(Batches(splits.test, 2, 0, 0)))
    # 80 x 40 becomes 160 x 80, with 40 rows of grey above. The first pixel is 1: 1..40 is from 0 to 40.
    assert one.boxes_K4.tolist() == [[0, 40, 80, 80], [20, 50, 40, 70]]
    assert one.classes_K.tolist() == [0, 2] and one.difficult_K.tolist() == [False, True]
    grey = images[:, :, torch.tensor([*range(40), *range(120, 160)])]
    assert (grey == 128 / 255).all() and images[:, :, 40:120].std() > 0.1 and 0 <= images.min() < images.max() <= 1
    _, (trained, *_) = next(iter(Batches(splits.train, 3, 0, 0)))
    assert trained.classes_K.tolist() == [0]  # without the difficult one


def test_a_mirrored_photograph_has_mirrored_boxes(tmp_path, rng):
    year = forms.voc(tmp_path / "VOC2007", rng, LISTS)
    plain, varied = (load("voc", year, image_size=160, augment=augment).train for augment in (False, True))
    x, objects = next(iter(Batches(plain, 3, 0, 0, shuffle=False)))
    seen = set()
    for epoch in range(4):
        for image, had, other, has in zip(x, objects, *next(iter(Batches(varied, 3, 0, epoch, shuffle=False))),
                                          strict=True):  # fmt: skip
            mirrored = not torch.equal(image, other)
            seen.add(mirrored)
            assert torch.equal(image.flip(2) if mirrored else image, other)
            left, top, right, bottom = had.boxes_K4[0].tolist()
            assert has.boxes_K4[0].tolist() == ([160 - right, top, 160 - left, bottom] if mirrored
                                                else [left, top, right, bottom])  # fmt: skip
    assert seen == {False, True}


def test_without_a_test_list_val_is_the_test(tmp_path, rng):
    lists = {"train": [f"{i:06}" for i in range(10)], "val": ["000010", "000011"]}
    splits = load("voc", forms.voc(tmp_path / "VOC2007", rng, lists), image_size=32)
    assert splits.test.names == lists["val"] and len(splits.validation) == 1
    assert sorted(splits.train.names + splits.validation.names) == lists["train"]


def test_a_missing_place_is_told(tmp_path, rng):
    for place, why in ((None, "no folder is given"), (tmp_path / "x", "isn't there"), (tmp_path, "no folder with")):
        with pytest.raises(DataError, match=f"{why}.*host.robots.ox.ac.uk"):
            load("voc", place)
    for year in ("VOC2007", "VOC2012"):
        forms.voc(tmp_path / year, rng, LISTS)
    with pytest.raises(DataError, match=r"VOC2007.*VOC2012: more than one"):
        load("voc", tmp_path)
    with pytest.raises(DataError, match="image_size is 100, and must be a multiple of 32"):
        load("voc", tmp_path / "VOC2007", image_size=100)
    (tmp_path / "voc.tar").write_bytes(b"nothing" * 100)
    with pytest.raises(DataError, match=r"can't read .*voc.tar"):
        load("voc", tmp_path / "voc.tar")


def test_a_list_that_shares_images_is_refused(tmp_path, rng):
    with pytest.raises(DataError, match="image 000001 is in two lists"):
        load("voc", forms.voc(tmp_path / "VOC2007", rng, LISTS | {"val": ["000001"]}))


@pytest.mark.parametrize("text, why", (
    ("<annotation><object>", "can't read Annotations/000005.xml"),
    (forms.annotation([("unicorn", 1, 1, 5, 5, False)]), "'unicorn' is none of its classes"),
    (forms.annotation([("dog", 9, 1, 5, 5, False)]), "a box from 9, 1 to 5, 5"),
    (forms.annotation([("dog", "x", 1, 5, 5, False)]), "could not convert"),
    ("<annotation><object><name>dog</name></object></annotation>", "an object without bndbox/xmin"),
))  # fmt: skip
def test_broken_annotations_are_refused(text, why, tmp_path, rng):
    year = forms.voc(tmp_path / "VOC2007", rng, LISTS)
    (year / "Annotations/000005.xml").write_text(text)
    with pytest.raises(DataError, match=why):
        load("voc", year, image_size=32).test.batch([0], None)


def test_missing_and_broken_photographs_are_named(tmp_path, rng):
    year = forms.voc(tmp_path / "VOC2007", rng, LISTS)
    test = load("voc", year, image_size=32).test
    (year / "JPEGImages/000005.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"can't read JPEGImages/000005.jpg"):
        test.batch([0], None)
    (year / "JPEGImages/000005.jpg").unlink()
    with pytest.raises(DataError, match=r"has no JPEGImages/000005.jpg"):
        test.batch([0], None)
    packed = forms.tar_of(year, tmp_path / "voc.tar")
    test = load("voc", packed, image_size=32).test
    packed.write_bytes(packed.read_bytes()[:2000])
    with pytest.raises(DataError, match="the file ends before it"):
        test.batch([1], None)
