"""Images that are all in the device's memory, and batches of them made there, so that it waits for no host."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from .images import PADDING, ImageSet

__all__ = ["DeviceImages"]


class DeviceImages:
    """The images of ``examples`` on ``device``, as bytes, with labels.

    Images vary as those of ``examples`` do (:func:`.images.crop_and_flip`), with other random numbers. These come from
    the processor, so they are the same on every device.
    """

    def __init__(self, examples: ImageSet, device: torch.device):
        self._augment, self._size = examples.augment, examples.images_NCHW.shape[-1]
        images_NHWC = np.moveaxis(examples.images_NCHW, 1, 3)
        margin = PADDING * self._augment
        padded = np.pad(images_NHWC, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
        self._images_NHWC = torch.from_numpy(padded).to(device)
        self._labels_N = torch.from_numpy(examples.labels_N.astype(np.int64)).to(device)
        most = 255 if padded.dtype == np.uint8 else 1
        mean, std = (torch.tensor(x, dtype=torch.float32, device=device) for x in
                     (most * examples.statistics.mean_C, most * examples.statistics.std_C))  # fmt: skip
        self._mean_C, self._std_C = mean, std

    def __len__(self) -> int:
        return len(self._labels_N)

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One epoch's batches in random order, all of ``size``: what is left over is left out this time."""
        generator = torch.Generator().manual_seed(seed << 16 | epoch)
        order = torch.randperm(len(self), generator=generator)
        places = torch.randint(0, 2 * PADDING * self._augment + 1, (2, len(self)), generator=generator)
        mirrored = torch.randint(0, 1 + self._augment, (len(self),), generator=generator).bool()
        device = self._labels_N.device
        order, places, mirrored = order.to(device), places.to(device), mirrored.to(device)
        along = torch.arange(self._size, device=device)
        for first in range(0, len(self) - size + 1, size):
            part = slice(first, first + size)
            columns_NW = torch.where(mirrored[part, None], along.flip(0), along) + places[1, part, None]
            rows_NH, chosen = along + places[0, part, None], order[part]
            images_NHWC = self._images_NHWC[chosen[:, None, None], rows_NH[:, :, None], columns_NW[:, None, :]]
            yield self._normalised(images_NHWC), self._labels_N[chosen]

    def in_order(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All images as they are, without variation, ``size`` at a time."""
        middle = slice(PADDING * self._augment, PADDING * self._augment + self._size)
        for first in range(0, len(self), size):
            part = slice(first, first + size)
            yield self._normalised(self._images_NHWC[part, middle, middle]), self._labels_N[part]

    def _normalised(self, images_NHWC: Tensor) -> Tensor:
        """Normalised images [N, C, H, W], with channels last in memory."""
        return ((images_NHWC.float() - self._mean_C) / self._std_C).permute(0, 3, 1, 2)
