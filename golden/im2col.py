"""Windows of a feature map as matrix rows, and the sum of such rows back into a feature map.

A shape ``g`` is anything with a command's geometry fields (``n c h w oh ow q r s stride pad_y pad_x``).
"""

import numpy as np

__all__ = ["col2im", "im2col", "windows"]


def _padded_size(g) -> tuple[int, int]:
    """Rows and columns that the windows touch, from the first row and column of padding on."""
    return (g.oh - 1) * g.stride + g.r, (g.ow - 1) * g.stride + g.s


def windows(x_NHWC: np.ndarray, g, fill: int = 0) -> np.ndarray:
    """View ``[n, oh, ow, r, s, c]`` of the windows of ``x``, padded with ``fill``."""
    n, h, w, c = x_NHWC.shape
    rows, columns = _padded_size(g)
    padded = np.full((n, rows, columns, c), fill, x_NHWC.dtype)
    body = padded[:, g.pad_y : g.pad_y + h, g.pad_x : g.pad_x + w]
    body[...] = x_NHWC[:, : body.shape[1], : body.shape[2]]
    step_n, step_y, step_x, step_c = padded.strides
    return np.lib.stride_tricks.as_strided(
        padded,
        (n, g.oh, g.ow, g.r, g.s, c),
        (step_n, g.stride * step_y, g.stride * step_x, step_y, step_x, step_c),
        writeable=False,
    )


def im2col(x_NHWC: np.ndarray, g) -> np.ndarray:
    """Matrix ``[n*oh*ow, r*s*c]`` of the zero-padded windows of ``x``."""
    return windows(x_NHWC, g).reshape(-1, g.r * g.s * x_NHWC.shape[3])


def col2im(taps_RSNHWC: np.ndarray, g) -> np.ndarray:
    """Feature map ``[n, h, w, c]`` in which each element sums its places in all windows.

    ``taps[i, j]`` is what tap (i, j) of every window adds, ``[n, oh, ow, c]``.
    """
    n, c = taps_RSNHWC.shape[2], taps_RSNHWC.shape[5]
    rows, columns = _padded_size(g)
    wide = np.result_type(taps_RSNHWC, np.int64)  # doubles stay doubles
    padded = np.zeros((n, max(rows, g.pad_y + g.h), max(columns, g.pad_x + g.w), c), wide)
    for i in range(g.r):
        for j in range(g.s):
            span_y = slice(i, i + (g.oh - 1) * g.stride + 1, g.stride)
            span_x = slice(j, j + (g.ow - 1) * g.stride + 1, g.stride)
            padded[:, span_y, span_x] += taps_RSNHWC[i, j]
    return padded[:, g.pad_y : g.pad_y + g.h, g.pad_x : g.pad_x + g.w]
