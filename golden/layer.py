"""Whole layers on NHWC tensors: what one compute command does, in one direction.

Weights and their gradients are one row per filter, ``[q, r*s*c + 1]``, the bias last. A shape ``g`` is
anything with a command's geometry fields.
"""

from collections.abc import Iterator

import numpy as np

from .array import matmul
from .im2col import col2im, im2col

__all__ = ["backward_data", "backward_weight", "forward"]

_COLUMN_ELEMENTS = 1 << 20
"""Size up to which the windows of several images are gathered for one product."""


def _images(g) -> Iterator[slice]:
    """Slices of the batch whose windows fit the cache."""
    at_once = max(1, _COLUMN_ELEMENTS // (g.oh * g.ow * g.r * g.s * g.c))
    return (slice(at, min(at + at_once, g.n)) for at in range(0, g.n, at_once))


def forward(x_NHWC: np.ndarray, w_K: np.ndarray, g) -> np.ndarray:
    """``x`` convolved with the filters, bias left out: int64 ``[n, oh, ow, q]``."""
    y = np.empty((g.n, g.oh, g.ow, g.q), np.int64)
    for part in _images(g):
        y[part] = matmul(im2col(x_NHWC[part], g), w_K[:, :-1].T).reshape(-1, g.oh, g.ow, g.q)
    return y


def backward_data(dy_NHWK: np.ndarray, w_K: np.ndarray, g) -> np.ndarray:
    """Gradient of ``x`` from that of ``y``: int64 ``[n, h, w, c]``."""
    dx = np.empty((g.n, g.h, g.w, g.c), np.int64)
    filters = w_K[:, :-1].reshape(g.q, g.r, g.s, g.c)
    for part in _images(g):
        dy = dy_NHWK[part].reshape(-1, g.q)

        def tap(i, j, dy=dy):
            return matmul(dy, filters[:, i, j]).reshape(-1, g.oh, g.ow, g.c)

        dx[part] = col2im(tap, g, g.c, part.stop - part.start)
    return dx


def backward_weight(x_NHWC: np.ndarray, dy_NHWK: np.ndarray, g) -> np.ndarray:
    """Gradient of the filters, and of the biases as the last element: int64 ``[q, r*s*c + 1]``."""
    dw = np.zeros((g.q, g.r * g.s * g.c + 1), np.int64)
    for part in _images(g):
        dw[:, :-1] += matmul(dy_NHWK[part].reshape(-1, g.q).T, im2col(x_NHWC[part], g))
    dw[:, -1] = dy_NHWK.sum(axis=(0, 1, 2), dtype=np.int64)
    return dw
