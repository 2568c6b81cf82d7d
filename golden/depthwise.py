"""Depthwise convolution and its gradients, before the epilogue: one filter for each channel.

Weights and their gradients are one row per channel, ``[c, r*s + 1]``, the bias last.
"""

import numpy as np

from .im2col import col2im, windows

__all__ = ["depthwise", "depthwise_backward_data", "depthwise_backward_weight"]


def _taps(w_CT: np.ndarray, g) -> np.ndarray:
    """The filters without their biases as doubles ``[r, s, c]``."""
    return w_CT[:, :-1].T.reshape(g.r, g.s, -1).astype(np.float64)


def _images(x_NHWC: np.ndarray):
    """The images one by one, as doubles: those hold all sums of products here, and multiply faster than integers."""
    return (x_NHWC[at : at + 1].astype(np.float64) for at in range(len(x_NHWC)))


def depthwise(x_NHWC: np.ndarray, w_CT: np.ndarray, g) -> np.ndarray:
    """Each channel of ``x`` convolved with its filter, bias left out: int64 ``[n, oh, ow, c]``."""
    y, taps = np.empty((len(x_NHWC), g.oh, g.ow, x_NHWC.shape[3]), np.int64), _taps(w_CT, g)
    for image, sums in zip(_images(x_NHWC), y, strict=True):
        columns = windows(image, g)[0]
        sums[...] = sum(columns[:, :, i, j] * taps[i, j] for i, j in np.ndindex(g.r, g.s))
    return y


def depthwise_backward_data(dy_NHWC: np.ndarray, w_CT: np.ndarray, g) -> np.ndarray:
    """Gradient of ``x`` from that of ``y``: int64 ``[n, h, w, c]``."""
    dx, taps = np.empty((len(dy_NHWC), g.h, g.w, dy_NHWC.shape[3]), np.int64), _taps(w_CT, g)[:, :, None, None, None]
    for dy, sums in zip(_images(dy_NHWC), dx, strict=True):
        sums[...] = col2im(dy * taps, g)[0]
    return dx


def depthwise_backward_weight(x_NHWC: np.ndarray, dy_NHWC: np.ndarray, g) -> np.ndarray:
    """Gradient of the filters, and of the biases as the last element: int64 ``[c, r*s + 1]``."""
    taps = np.zeros((x_NHWC.shape[3], g.r, g.s), np.int64)
    for image, dy in zip(_images(x_NHWC), _images(dy_NHWC), strict=True):
        columns = windows(image, g)[0]
        for i, j in np.ndindex(g.r, g.s):
            taps[:, i, j] += np.einsum("yxc,yxc->c", columns[:, :, i, j], dy[0]).astype(np.int64)
    biases = dy_NHWC.sum(axis=(0, 1, 2), dtype=np.int64)
    return np.concatenate([taps.reshape(len(biases), -1), biases[:, None]], axis=1)
