"""Sums of windows, as DOT descriptors say them, from all vectors of both operands."""

import numpy as np

__all__ = ["sums_of_windows"]


def sums_of_windows(d, a, b):
    """Sums [window][lane] of DOT ``d`` over ``a`` and ``b``, both [position][lane] in the order in which they come."""
    if not d["task"]:
        return (a * b).reshape(d["n_b"], d["n_a"], -1).sum(axis=1)
    width, columns = d["task"], d["n4"]
    first = np.arange(0, columns - width + 1, d["mantissa"])  # columns in which the windows of a row begin
    meets = first[:, None] + np.arange(width)  # [window][its column]
    if d["n_values"]:
        rows = a.reshape(d["n_b"], -1, columns, a.shape[1])
        windows = b.reshape(d["n_b"], -1, len(first), b.shape[1])
        assert rows.shape[:2] == windows.shape[:2] and rows[0, :, :, 0].size == d["n_values"]
        sums = np.einsum("prwkl,prwl->pkl", rows[:, :, meets], windows).reshape(-1, a.shape[1])
        return sums[: 1 - width] if d["ones"] else sums
    taps = b.reshape(d["n5"], width, b.shape[1])
    rows = a.reshape(-1, columns, d["n5"], a.shape[1])
    return np.einsum("rwkil,ikl->rwl", rows[:, meets], taps).reshape(-1, a.shape[1])
