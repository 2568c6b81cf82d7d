"""Reorganisation of a layer's output for the predictor (paper, section 3.6): sums over the batch and over windows."""

import numpy as np

from ..spec.numerics import WINDOWS

__all__ = ["reorganise"]


def _bounds(extent):
    """First and last + 1 of each window: of equal size, the rest in none; where there are too few, all in each."""
    size = extent // WINDOWS
    return [(k * size, (k + 1) * size) if size else (0, extent) for k in range(WINDOWS)]


def reorganise(y_NHWC: np.ndarray) -> np.ndarray:
    """Sums ``[q, WINDOWS, WINDOWS]`` (int64) of the results ``[n, h, w, q]`` of a layer.

    Divided by the images and by :func:`window_sizes` they are torch's avg_pool2d with windows of h // 2 by w // 2,
    averaged over the batch; rows or columns that there is only one of are repeated.
    """
    _, height, width, _ = y_NHWC.shape
    y = y_NHWC.astype(np.int64)
    rows, columns = _bounds(height), _bounds(width)
    sums = [[y[:, r0:r1, c0:c1].sum(axis=(0, 1, 2)) for c0, c1 in columns] for r0, r1 in rows]
    return np.array(sums).transpose(2, 0, 1)
