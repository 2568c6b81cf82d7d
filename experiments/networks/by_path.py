"""The small networks as the host takes a user's own: by this file's path and a function's name."""

from adagp.experiments.networks import small  # read as a file, this has no package to be relative to
from torch import nn

__all__ = ["small_cnn", "small_cnn5"]


def small_cnn(shape: tuple[int, int, int], n_classes: int) -> nn.Sequential:
    """See :func:`.small.small_cnn`; ``shape``: channels, height, width of an image."""
    return small.small_cnn(n_classes, shape[1], shape[0])


def small_cnn5(shape: tuple[int, int, int], n_classes: int) -> nn.Sequential:
    """See :func:`.small.small_cnn5`."""
    return small.small_cnn5(n_classes, shape[1], shape[0])
