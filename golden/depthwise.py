"""Depthwise convolution and its gradients, before the epilogue: one filter for each channel.

Weights and their gradients are one row per channel, ``[c, r*s + 1]``, the bias last.
"""

import numpy as np

from .im2col import col2im, windows

__all__ = ["depthwise", "depthwise_backward_data", "depthwise_backward_weight"]


def _taps(w_CT: np.ndarray, g) -> np.ndarray:
    """The filters without their biases as int64 ``[r, s, c]``."""
    return w_CT[:, :-1].T.reshape(g.r, g.s, -1).astype(np.int64)


def depthwise(x_NHWC: np.ndarray, w_CT: np.ndarray, g) -> np.ndarray:
    """Each channel of ``x`` convolved with its filter, bias left out: int64 ``[n, oh, ow, c]``."""
    y, taps = np.zeros((len(x_NHWC), g.oh, g.ow, x_NHWC.shape[3]), np.int64), _taps(w_CT, g)
    for image, sums in zip(windows(x_NHWC, g), y, strict=True):
        for i, j in np.ndindex(g.r, g.s):
            sums += image[:, :, i, j] * taps[i, j]
    return y


def depthwise_backward_data(dy_NHWC: np.ndarray, w_CT: np.ndarray, g) -> np.ndarray:
    """Gradient of ``x`` from that of ``y``: int64 ``[n, h, w, c]``."""
    taps = _taps(w_CT, g)[:, :, None, None, None, :]
    return np.concatenate([col2im(image[None] * taps, g) for image in dy_NHWC])


def depthwise_backward_weight(x_NHWC: np.ndarray, dy_NHWC: np.ndarray, g) -> np.ndarray:
    """Gradient of the filters, and of the biases as the last element: int64 ``[c, r*s + 1]``."""
    taps = np.zeros((x_NHWC.shape[3], g.r, g.s), np.int64)
    for image, dy in zip(windows(x_NHWC, g), dy_NHWC.astype(np.int64), strict=True):
        for i, j in np.ndindex(g.r, g.s):
            taps[:, i, j] += (image[:, :, i, j] * dy).sum(axis=(0, 1))
    biases = dy_NHWC.sum(axis=(0, 1, 2), dtype=np.int64)
    return np.concatenate([taps.reshape(len(biases), -1), biases[:, None]], axis=1)
