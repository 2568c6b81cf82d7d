"""Batches that are made on the device, against those that the processor makes."""

import numpy as np
import torch
from adagp.experiments.data.images import PADDING, ImageSet, Statistics
from adagp.experiments.data.on_device import DeviceImages

CPU = torch.device("cpu")


def _set(rng, augment, count=13):
    images = rng.integers(0, 256, (count, 3, 8, 8), np.uint8)
    return ImageSet(images, np.arange(count), Statistics.of(images), augment)


def test_images_in_order_are_those_of_the_set(rng):
    for augment in (False, True):
        examples = _set(rng, augment)
        found = list(DeviceImages(examples, CPU).in_order(5))
        x, y = (torch.cat(parts) for parts in zip(*found, strict=True))
        expected = examples.statistics.normalised(examples.images_NCHW)
        assert [len(labels) for _, labels in found] == [5, 5, 3] and y.tolist() == list(range(13))
        torch.testing.assert_close(x, expected, atol=1e-5, rtol=0)


def test_an_epoch_has_whole_batches_of_different_images_that_depend_on_seed_and_epoch(rng):
    images = DeviceImages(_set(rng, False), CPU)
    orders = {}
    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        batches = list(images.batches(5, seed, epoch))
        assert [len(y) for _, y in batches] == [5, 5] and batches[0][0].is_contiguous(memory_format=torch.channels_last)
        orders[seed, epoch] = torch.cat([y for _, y in batches]).tolist()
        assert len(set(orders[seed, epoch])) == 10
    assert len(set(map(tuple, orders.values()))) == 3
    assert torch.equal(torch.cat([y for _, y in images.batches(5, 0, 1)]), torch.tensor(orders[0, 1]))


def test_images_vary_by_crops_and_mirrors(rng):
    """Each is one of the shifts, black around it, mirrored or not; of many, more than half differ."""
    examples = _set(rng, True, 40)
    shifts = set()
    for x, y in DeviceImages(examples, CPU).batches(40, 0, 0):
        for image, label in zip(x, y.tolist(), strict=True):
            padded = np.pad(examples.images_NCHW[label], ((0, 0), (PADDING, PADDING), (PADDING, PADDING)))
            crops = {
                (top, left, turn): examples.statistics.normalised(padded[:, top:top + 8, left:left + 8][:, :, ::turn])
                for top in range(2 * PADDING + 1) for left in range(2 * PADDING + 1) for turn in (1, -1)
            }  # fmt: skip
            same = [place for place, crop in crops.items() if torch.allclose(image, crop, atol=1e-5)]
            assert len(same) == 1, f"image {label} is none of its crops"
            shifts.add(same[0])
    assert len(shifts) > 20 and {turn for _, _, turn in shifts} == {1, -1}
