"""Batches of images half as wide and high, in the training of a network for whole ones."""

import math
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Halving", "halved"]


def halved(images: Tensor) -> Tensor:
    """Means of 2 x 2 pixels of [N, channels, height, width]; an odd row or column is left out."""
    return F.avg_pool2d(images, 2)


class Halving:
    """Inside of ``with`` the network takes halved images: what a linear layer behind Flatten sees is repeated.

    Images must be square. Of sizes that don't halve exactly some places are repeated more often than others.
    """

    def __init__(self, network: nn.Module):
        self._on = False
        parts = [module for module in network.modules() if isinstance(module, (nn.Flatten, nn.Linear))]
        for flatten, linear in pairwise(parts):
            if isinstance(flatten, nn.Flatten) and isinstance(linear, nn.Linear):
                flatten.register_forward_pre_hook(self._repeated(linear))

    def _repeated(self, linear: nn.Linear):
        def seen(_, args):
            if not self._on:
                return None
            (output,) = args
            side = math.isqrt(linear.in_features // output.shape[1])
            return (F.interpolate(output, size=(side, side)),)

        return seen

    def __enter__(self) -> None:
        self._on = True

    def __exit__(self, *_: object) -> None:
        self._on = False
