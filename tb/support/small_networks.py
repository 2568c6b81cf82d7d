"""Small networks whose shapes fit no tile evenly, for several benches."""

from torch import nn

__all__ = ["N_CLASSES", "pools", "strides"]

N_CLASSES = 5


def strides() -> nn.Sequential:
    """For images of 7x11x9: kernels, strides and padding that aren't square, a layer without bias."""
    return nn.Sequential(
        nn.Conv2d(7, 5, (5, 3), stride=3, padding=(2, 1)), nn.ReLU(), nn.Conv2d(5, 9, (2, 3), padding=(0, 1)),
        nn.Conv2d(9, 3, (3, 2), padding=(1, 0), bias=False), nn.Flatten(), nn.Linear(18, N_CLASSES),
    )  # fmt: skip


def pools() -> nn.Sequential:
    """For images of 3x10x13: a ReLU first, both kinds of pools, windows that overlap."""
    return nn.Sequential(
        nn.ReLU(), nn.Conv2d(3, 6, 3, padding=1), nn.MaxPool2d(3, 2, padding=1), nn.ReLU(),
        nn.AvgPool2d((3, 2), 2, padding=(1, 0)), nn.Conv2d(6, 7, 2, padding=1), nn.ReLU(), nn.MaxPool2d(3, 1),
        nn.Flatten(), nn.Linear(28, N_CLASSES),
    )  # fmt: skip
