"""Batches of images of half the size, in the training of a network for whole ones."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["halved", "statistics_kept", "take_halved"]


def halved(images: Tensor) -> Tensor:
    """Of [N, channels, height, width] means of 2 x 2 pixels; what is left over is in none."""
    return F.avg_pool2d(images, 2)


def take_halved(network: nn.Module) -> None:
    """Let ``network`` work on halved images too: where a linear layer is behind Flatten, what it sees is repeated.

    Images must be square. Whole ones are as before.
    """
    parts = [module for module in network.modules() if isinstance(module, (nn.Flatten, nn.Linear))]
    for flatten, linear in pairwise(parts):
        if isinstance(flatten, nn.Flatten) and isinstance(linear, nn.Linear):
            flatten.register_forward_pre_hook(_repeated(linear))


def _repeated(linear: nn.Linear):
    def seen(_, args):
        (output,) = args
        side = math.isqrt(linear.in_features // output.shape[1])
        return None if output.shape[-1] == side else (F.interpolate(output, size=(side, side)),)

    return seen


@contextmanager
def statistics_kept(network: nn.Module) -> Iterator[None]:
    """Running statistics of batch normalisation stay as they are: evaluation is of whole images."""
    norms = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    kept = [(buffer, buffer.clone()) for norm in norms for buffer in norm.buffers()]
    yield
    with torch.no_grad():
        for buffer, before in kept:
            buffer.copy_(before)
