"""Batch norm in the engine model: vectors that SCALE and TABLES descriptors make, by the golden model's arithmetic."""

import numpy as np
from adagp.golden import batch_norm
from adagp.golden.channel_constants import Forward, backward_constants
from adagp.golden.channel_tables import pack_rows, unpack_rows
from adagp.spec.microcode.descriptors import NormTask, VectorMode
from adagp.spec.norm import (
    APPLY_PLANES,
    BACKWARD_ROW,
    DIGIT_BITS,
    FORWARD_ROW,
    KEPT_PLANES,
    STATE_ROW,
    SUM_DIGITS,
    SUMS_ROW,
    WEIGHT_PLANES,
    NormConstants,
    Number,
    planes,
)
from adagp.spec.numerics import SHIFT_MAX, SHIFT_MIN

__all__ = ["digits", "norm_vectors", "own_fields"]

FIRST = planes(SUMS_ROW)


def digits(vectors):
    """Vectors of the digits of vectors."""
    width = DIGIT_BITS * (SUM_DIGITS - 1)
    for sums in vectors:
        for place in range(0, width, DIGIT_BITS):
            yield sums >> place & (1 << DIGIT_BITS) - 1
        yield sums >> width


def norm_vectors(engines, d, outer):
    """Vectors of a SCALE or TABLES descriptor, group by group of channels: (values, shifts, plain)."""
    assert d["k0"] == d["k1"] == d["kjump2"] == 1 and d["n_k"] == d["k2"]
    rows = engines.config.rows
    for k in range(0, d["n_k"], rows):
        lane_k = k + np.arange(min(rows, d["n_k"] - k))
        a = engines.lanes(engines.a[engines.held["a"]], outer[:, None] + lane_k)
        if d["mode"] == VectorMode.TABLES:
            assert len(a) == d["n_a"]
            yield from _tables(d, a)
        else:
            places = np.arange(d["n_a"])[:, None] * d["b_stride"] + lane_k
            yield from _scaled(d, engines.lanes(engines.b[engines.held["b"]], places), a)


def own_fields(shifts, plain, lane):
    """Fields of a drain for a lane of such a vector."""
    return {"shift": shifts[lane], **({"c_mode": 0, "track": 0} if plain else {})}


def _clamped(shift):
    return max(SHIFT_MIN, min(SHIFT_MAX, shift))


def _scaled(d, b, a):
    """Vectors (sums, shifts, plain) of a group, of vectors [vector][lane] of B and of A."""
    pairs, count = d["task"] == NormTask.BACKWARD, planes(BACKWARD_ROW)
    assert len(b) == (count + len(a) if pairs else APPLY_PLANES)
    missing = np.zeros((count - APPLY_PLANES, b.shape[1]), int)
    rows = unpack_rows(BACKWARD_ROW, b[:count] if pairs else np.concatenate([missing, b]))
    shifts = [_clamped(d["exponent"] - row["p_exponent"]) for row in rows]
    for at, values in enumerate(a.tolist()):
        sums = [row["p"] * g + row["r"] for g, row in zip(values, rows, strict=True)]
        if pairs:
            sums = [made + (row["q"] * x << row["q_shift"])
                    for made, x, row in zip(sums, b[count + at].tolist(), rows, strict=True)]  # fmt: skip
        yield sums, shifts, False


def _tables(d, given):
    """Vectors (values, shifts, plain) of a group: ``given`` [plane][lane]."""
    constants = NormConstants(
        d["n_values"], Number(d["mantissa"], d["epsilon_exponent"]), d["momentum"],
        Number(d["unbiased"], d["unbiased_exponent"]),
    )  # fmt: skip
    lanes, nothing = given.shape[1], [0] * given.shape[1]
    if d["task"] == NormTask.BACKWARD:
        yield from _backward(d, given, constants.n)
        return
    sums, rest = (given[:FIRST], given[FIRST:]) if d["task"] == NormTask.BATCH else (None, given)
    weights, states = rest[:WEIGHT_PLANES], rest[WEIGHT_PLANES:]
    assert len(states) == planes(STATE_ROW) and lanes > 0
    exponents = d["w_exponent"], d["x_exponent"]
    if sums is None:
        made = batch_norm.running_rows(states, weights, *exponents, constants)
    else:
        of_x = batch_norm.unpack_sums(sums)
        rows = batch_norm.forward_rows(of_x, weights, *exponents, constants)
        made = np.concatenate([rows, batch_norm.states_after(states, of_x, d["x_exponent"], constants)])
    for plane in made.tolist():
        yield plane, nothing, True


def _backward(d, given, n):
    of_g = batch_norm.unpack_sums(given[:FIRST])
    missing = np.zeros((planes(FORWARD_ROW) - KEPT_PLANES, given.shape[1]), given.dtype)
    forward = [Forward(**row) for row in unpack_rows(FORWARD_ROW, np.concatenate([missing, given[FIRST:]]))]
    pairs = zip(*(sums.tolist() for sums in of_g), strict=True)
    made = [backward_constants(row, pair, d["x_exponent"], d["g_exponent"], n)
            for row, pair in zip(forward, pairs, strict=True)]  # fmt: skip
    shifts = [_clamped(d["exponent"] - each.gradient.exponent) for each in made]
    yield [each.gradient.mantissa for each in made], shifts, False
    yield of_g[0].tolist(), [_clamped(d["exponent"] - d["g_exponent"])] * len(made), False
    for plane in pack_rows(BACKWARD_ROW, [vars(each) for each in made]).tolist():
        yield plane, [0] * len(made), True
