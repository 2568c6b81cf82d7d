"""Arithmetic of the engine model: requantisation, sums, and the addresses that descriptors walk."""

import numpy as np
from adagp.spec.microcode.descriptors import VectorMode
from adagp.spec.numerics import operand_max

__all__ = ["drained", "grid", "odometer", "requantise", "sum_up"]


def requantise(values, shift, width):
    """values / 2^shift, half to even (shift < 0: times), saturated to +-(2^(width-1) - 1); Python integers."""
    out = []
    for value in np.asarray(values, dtype=object).ravel():
        if shift > 0:
            low, rest, half = value >> shift, value & ((1 << shift) - 1), 1 << (shift - 1)
            value = low + (rest > half or (rest == half and low & 1))
        else:
            value <<= -shift
        out.append(max(-operand_max(width), min(operand_max(width), value)))
    return np.array(out, dtype=object).reshape(np.shape(values))


def grid(*levels):
    """All sums of i*stride over (count, stride) levels, first level outermost, as a flat array."""
    total = np.zeros(1, dtype=np.int64)
    for count, stride in levels:
        total = (total[:, None] + np.arange(count, dtype=np.int64) * stride).ravel()
    return total


def drained(d):
    """True if the vectors of COMPUTE descriptor ``d`` go to a drain at the same time."""
    return d["mode"] != VectorMode.GEMM and (d["mode"] not in (VectorMode.DOT, VectorMode.DIGITS) or d["last"])


def odometer(counts, jumps):
    """Addresses an odometer walks: stepping level i resets the deeper ones and adds jumps[i]."""
    address, out = 0, []
    index = [0] * len(counts)
    for _ in range(int(np.prod(counts))):
        out.append(address)
        for level in reversed(range(len(counts))):
            index[level] += 1
            if index[level] < counts[level]:
                address += jumps[level]
                break
            index[level] = 0
    return np.array(out, dtype=np.int64)


def window_sums(results, d):
    """Sums [filter][window] of a tile's results [filter][pixel], the tile being as DRAIN descriptor ``d`` says."""
    images = results.reshape(len(results), -1, d["rows"], d["width"])
    places = (d["height"], np.arange(d["rows"]) + d["row"]), (d["width"], np.arange(d["width"]))
    # [window][place] in each direction: halves, rounded down; all where there is only one
    inside = [
        np.array([at // max(1, extent // 2) == (k if extent > 1 else 0) for k in range(2)]) for extent, at in places
    ]
    return np.einsum("fnyx,ry,cx->frc", images, *(each.astype(np.int64) for each in inside)).reshape(-1, 4)


def sum_up(engines, d):
    """Add a tile's results, as they are in C, to the sums of their filters and windows."""
    groups = grid((d["n_out"], d["s_out"]), (engines.config.cols, d["lane_step"]))
    lanes = groups[: (d["n_out"] - 1) * engines.config.cols + d["lanes_last"]]
    places = lanes[:, None] + np.arange(d["n_in"]) * d["s_in"]
    tile = engines.c[d["half"]][places % engines.config.c_elements]
    sums = window_sums(tile.T if d["swap"] else tile, d).ravel()
    to = slice(d["at"], d["at"] + len(sums))
    engines.sums[to] = sums + (0 if d["fresh"] else engines.sums[to])
