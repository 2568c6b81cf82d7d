"""Batch norm in training mode: exact sums, tables of constants, and elementwise passes with a factor for each channel.

The channel is the last axis of all arrays. Tables are as spec/norm.py has them; golden/channel_constants.py makes the
constants of one channel. Results of the passes are sums for the epilogue, with an exponent each channel.
"""

import numpy as np

from ..spec.norm import BACKWARD_ROW, FORWARD_ROW, MAX_VALUES, SUMS_ROW, NormConstants
from .channel_constants import (
    Affine,
    Forward,
    backward_constants,
    forward_constants,
    running_constants,
    running_state,
)
from .channel_tables import pack_rows, pack_state, unpack_rows, unpack_state

__all__ = [
    "apply", "apply_backward", "backward_rows", "forward_rows", "pack_sums", "parameter_gradients", "running_rows",
    "states_after", "sums", "unpack_sums",
]  # fmt: skip

_CHUNK = 1 << 17
"""Values handled at a time, so that temporaries stay in the cache."""


def _chunks(*arrays: np.ndarray):
    """Parts of arrays of one shape, as doubles [values][channels]."""
    channels = arrays[0].shape[-1]
    flat = [array.reshape(-1, channels) for array in arrays]
    step = max(1, _CHUNK // channels)
    for at in range(0, len(flat[0]), step):
        yield [array[at : at + step].astype(np.float64) for array in flat]


def sums(x: np.ndarray, g: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The exact sums over all values of a channel: of x and x * x, or of g and g * x."""
    if x.size // x.shape[-1] > MAX_VALUES:
        raise ValueError(f"a channel has at most {MAX_VALUES} values, not {x.size // x.shape[-1]}")
    first, second = np.zeros((2, x.shape[-1]), np.int64)
    for part, *rest in _chunks(x, *([] if g is None else [g])):
        left = rest[0] if rest else part
        first += left.sum(0).astype(np.int64)
        second += np.einsum("nc,nc->c", left, part).astype(np.int64)  # a chunk's are below 2^53
    return first, second


def pack_sums(pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The table of sums."""
    return pack_rows(SUMS_ROW, [{"first": first, "second": second} for first, second in _pairs(pair)])


def unpack_sums(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of :func:`pack_sums`."""
    channels = unpack_rows(SUMS_ROW, table)
    first, second = (np.array([channel[name] for channel in channels], np.int64) for name in ("first", "second"))
    return first, second


def _pairs(pair: tuple[np.ndarray, np.ndarray]):
    """The sums of each channel."""
    return zip(*(values.tolist() for values in pair), strict=True)


def _affine(weights: np.ndarray, exponent: int) -> list[Affine]:
    """Gamma and beta of each channel."""
    return [Affine(gamma, beta, exponent) for gamma, beta in weights.T.tolist()]


def forward_rows(
    of_x: tuple[np.ndarray, np.ndarray], weights: np.ndarray, w_exponent: int, x_exponent: int,
    constants: NormConstants,
) -> np.ndarray:  # fmt: skip
    """The table of the forward pass of a batch."""
    channels = zip(_pairs(of_x), _affine(weights, w_exponent), strict=True)
    each = [forward_constants(pair, affine, x_exponent, constants) for pair, affine in channels]
    return pack_rows(FORWARD_ROW, [vars(channel) for channel in each])


def running_rows(
    states: np.ndarray, weights: np.ndarray, w_exponent: int, x_exponent: int, constants: NormConstants
) -> np.ndarray:
    """The table of the forward pass that uses running statistics."""
    channels = zip(unpack_state(states), _affine(weights, w_exponent), strict=True)
    each = [running_constants(state, affine, x_exponent, constants) for state, affine in channels]
    return pack_rows(FORWARD_ROW, [vars(channel) for channel in each])


def states_after(
    states: np.ndarray, of_x: tuple[np.ndarray, np.ndarray], x_exponent: int, constants: NormConstants
) -> np.ndarray:
    """The table of running statistics after a batch."""
    channels = zip(unpack_state(states), _pairs(of_x), strict=True)
    return pack_state([running_state(state, pair, x_exponent, constants) for state, pair in channels])


def _backward(rows: np.ndarray, of_g: tuple[np.ndarray, np.ndarray], x_exponent: int, g_exponent: int, n: int):
    forward = [Forward(**channel) for channel in unpack_rows(FORWARD_ROW, rows)]
    pairs = zip(forward, _pairs(of_g), strict=True)
    return [backward_constants(row, pair, x_exponent, g_exponent, n) for row, pair in pairs]


def parameter_gradients(
    rows: np.ndarray, of_g: tuple[np.ndarray, np.ndarray], x_exponent: int, g_exponent: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sums and exponents of the gradients ``[2, channels]`` of gamma and beta."""
    each = [channel.gradient for channel in _backward(rows, of_g, x_exponent, g_exponent, n)]
    acc = np.stack([np.array([number.mantissa for number in each]), of_g[0]])
    exponents = np.stack([np.array([number.exponent for number in each]), np.full(len(each), g_exponent)])
    return acc, exponents


def backward_rows(
    rows: np.ndarray, of_g: tuple[np.ndarray, np.ndarray], x_exponent: int, g_exponent: int, n: int
) -> np.ndarray:
    """The table of the backward pass, from that of the forward pass."""
    return pack_rows(BACKWARD_ROW, [vars(each) for each in _backward(rows, of_g, x_exponent, g_exponent, n)])


def _columns(row, table: np.ndarray, *names: str) -> list[np.ndarray]:
    fields = unpack_rows(row, table, *names)
    return [np.array([field[name] for field in fields]) for name in names]


def _pass(shape: tuple[int, ...], parts) -> np.ndarray:
    """An array of doubles that are integers, put together from its parts."""
    acc, at = np.empty(shape, np.int64), 0
    flat = acc.reshape(-1, shape[-1])
    for part in parts:
        flat[at : at + len(part)] = part
        at += len(part)
    return acc


def apply(x: np.ndarray, rows: np.ndarray, x_exponent: int) -> tuple[np.ndarray, np.ndarray]:
    """The normalised values: sums, and an exponent for each channel."""
    a, exponents, b = _columns(FORWARD_ROW, rows, "a", "a_exponent", "b")
    return _pass(x.shape, (part * a + b for (part,) in _chunks(x))), exponents + x_exponent


def apply_backward(
    g: np.ndarray, x: np.ndarray, rows: np.ndarray, g_exponent: int
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The gradient of x: sums, and an exponent for each channel."""
    p, exponents, q, places, r = _columns(BACKWARD_ROW, rows, "p", "p_exponent", "q", "q_shift", "r")
    parts = (of_g * p + of_x * (q << places) + r for of_g, of_x in _chunks(g, x))
    return _pass(x.shape, parts), exponents + g_exponent
