"""Pooling and its gradients, before the epilogue: sums and maxima over windows."""

import numpy as np

from ..spec.numerics import operand_max
from .im2col import col2im, windows

__all__ = ["avgpool", "avgpool_backward", "maxpool", "maxpool_backward"]


def maxpool(x_NHWC: np.ndarray, g, operand_width: int) -> tuple[np.ndarray, np.ndarray]:
    """Maximum ``[n, oh, ow, c]`` of every window and 1 + the tap of its first occurrence.

    Windows are padded with the least mantissa, which wins where it comes before an equal element.
    """
    taps = windows(x_NHWC, g, -operand_max(operand_width)).reshape(x_NHWC.shape[0], g.oh, g.ow, g.r * g.s, -1)
    index = taps.argmax(axis=3)
    value = np.take_along_axis(taps, index[:, :, :, None], axis=3)[:, :, :, 0]
    return value.astype(np.int64), index + 1


def maxpool_backward(dy_NHWC: np.ndarray, index_NHWC: np.ndarray, g) -> np.ndarray:
    """Sum ``[n, h, w, c]`` of the ``dy`` of those windows whose index names the element."""
    tap = np.arange(1, g.r * g.s + 1, dtype=index_NHWC.dtype).reshape(g.r, g.s, 1, 1, 1, 1)
    return col2im(np.where(index_NHWC == tap, dy_NHWC, 0), g)


def avgpool(x_NHWC: np.ndarray, g, mantissa: int) -> np.ndarray:
    """``mantissa`` times the sum ``[n, oh, ow, c]`` of every zero-padded window."""
    return windows(x_NHWC, g).sum(axis=(3, 4), dtype=np.int64) * mantissa


def avgpool_backward(dy_NHWC: np.ndarray, g, mantissa: int) -> np.ndarray:
    """``mantissa`` times the sum ``[n, h, w, c]`` of the ``dy`` of all windows that hold the element."""
    return col2im(np.broadcast_to(dy_NHWC, (g.r, g.s, *dy_NHWC.shape)), g) * mantissa
