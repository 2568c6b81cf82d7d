"""Splits, order of batches, and going on in the middle of an epoch."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from adagp.experiments.data import Batches, DataError, ImageSet
from adagp.experiments.data.images import PADDING, Statistics, crop_and_flip
from adagp.experiments.data.splits import split


@dataclass
class Numbers:
    """Examples that are their own indexes."""

    count: int

    def __len__(self):
        return self.count

    def batch(self, indexes, draw):
        return [(int(index), int(draw(index).integers(1000))) for index in indexes]


def test_splits_are_disjoint_whole_and_the_same_for_a_seed():
    train, validation = split(100, 0.1, 3)
    assert sorted([*train, *validation]) == list(range(100)) and len(validation) == 10
    assert all(np.array_equal(a, b) for a, b in zip(split(100, 0.1, 3), (train, validation), strict=True))
    assert not np.array_equal(split(100, 0.1, 4)[1], validation)


@pytest.mark.parametrize("validation", (0, 1, -0.5, 1.5, 0.001, 0.999))
def test_a_split_leaves_something_on_both_sides(validation):
    with pytest.raises(DataError, match=f"validation is {validation}"):
        split(100, validation, 0)


def test_an_epoch_has_each_example_once():
    batches = list(Batches(Numbers(10), 4, 0, 0))
    assert [len(batch) for batch in batches] == [4, 4, 2] and len(Batches(Numbers(10), 4, 0, 0)) == 3
    assert sorted(index for batch in batches for index, _ in batch) == list(range(10))
    order = [index for batch in Batches(Numbers(10), 4, 0, 0, shuffle=False) for index, _ in batch]
    assert order == list(range(10))


def test_order_and_draws_depend_on_seed_and_epoch():
    runs = {(seed, epoch): list(Batches(Numbers(50), 8, seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}
    assert all(list(Batches(Numbers(50), 8, *key)) == run for key, run in runs.items())
    assert len({str(run) for run in runs.values()}) == 4


def test_augmented_images_are_the_same_again(rng):
    images = rng.integers(0, 256, (14, 3, 8, 8), dtype=np.uint8)
    examples = ImageSet(images, np.arange(14), Statistics.of(images), augment=True)
    first, again = (list(Batches(examples, 4, 7, 2)) for _ in range(2))
    assert all(torch.equal(a, b) for one, other in zip(first, again, strict=True)
               for a, b in zip(one, other, strict=True))  # fmt: skip
    plain = ImageSet(images, np.arange(14), Statistics.of(images))
    assert not torch.equal(next(iter(Batches(plain, 4, 7, 2)))[0], first[0][0])


def test_batches_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match="batch_size is 0"):
        Batches(Numbers(14), 0, 0, 0)


def test_a_crop_is_a_shift_and_a_mirror():
    image = np.arange(1, 1 + 2 * 6 * 5, dtype=np.float32).reshape(2, 6, 5)
    padded = np.pad(image, ((0, 0), (PADDING, PADDING), (PADDING, PADDING)))
    possible = {}
    for top in range(2 * PADDING + 1):
        for left in range(2 * PADDING + 1):
            crop = padded[:, top : top + 6, left : left + 5]
            possible[crop.tobytes()] = possible[crop[:, :, ::-1].tobytes()] = (top, left)
    seen = {possible[crop_and_flip(image, np.random.default_rng(seed)).tobytes()] for seed in range(2000)}
    assert seen == set(possible.values())


def test_statistics_are_those_of_all_pixels(rng):
    images = rng.integers(0, 256, (2500, 2, 3, 3), dtype=np.uint8)
    statistics, values = Statistics.of(images), images / 255
    np.testing.assert_allclose(statistics.mean_C, values.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(statistics.std_C, values.std((0, 2, 3)), rtol=1e-6)
