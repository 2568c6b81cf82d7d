"""Average pools whose padding doesn't count: the machine divides by a constant, and then raises the borders.

A window that overhangs the image by rows of padding has fewer rows in it, so its average is the machine's times r over
their number, and likewise for columns. The backward pass raises the borders of the result's gradient first.
"""

import math
from collections.abc import Iterator

from ...spec.commands import Opcode, Phase
from .ir import Step
from .lowering import Layer
from .product_operands import LONGEST_PITCH
from .quantise import constant

__all__ = ["border_steps", "raised_bits"]

MOST_CHANNELS = (1 << 16) - 1
"""The largest value of a command's field."""


def border_steps(layer: Layer, place: int, tensor: str, batch: int, phases: Phase) -> Iterator[Step]:
    """Raise, in place, the borders of a tensor of the shape of a pool's result; none if its padding counts."""
    rows, columns = _overhanging(layer)
    row = layer.ow * layer.q
    for y, factor in rows.items():
        wide = max(1, MOST_CHANNELS // layer.q)
        for x in range(0, layer.ow, wide):
            channels = min(wide, layer.ow - x) * layer.q
            yield from _raised(layer, place, tensor, phases, y * row + x * layer.q, (batch, 1, channels),
                               layer.oh * row, factor)  # fmt: skip
    for x, factor in columns.items():
        yield from _raised(layer, place, tensor, phases, x * layer.q, (batch, layer.oh, layer.q), row, factor)


def raised_bits(layer: Layer) -> int:
    """Bits by which a pool's borders may grow at most."""
    return math.ceil(math.log2(math.prod(max(factors.values(), default=1) for factors in _overhanging(layer))))


def _overhanging(layer: Layer) -> tuple[dict[int, float], dict[int, float]]:
    """Rows and columns of a pool's result whose windows aren't whole, each with the factor by which it is raised."""
    if not layer.inside:
        return {}, {}
    return (_factors(layer.oh, layer.h, layer.r, layer.stride, layer.pad_y),
            _factors(layer.ow, layer.w, layer.s, layer.stride, layer.pad_x))  # fmt: skip


def _factors(windows: int, extent: int, size: int, stride: int, padding: int) -> dict[int, float]:
    firsts = ((window, window * stride - padding) for window in range(windows))
    inside = {window: min(first + size, extent) - max(first, 0) for window, first in firsts}
    return {window: size / elements for window, elements in inside.items() if elements < size}


def _raised(
    layer: Layer, place: int, tensor: str, phases: Phase, first: int, extents: tuple[int, int, int], pitch: int,
    factor: float,
) -> Iterator[Step]:  # fmt: skip
    """Multiply vectors of channels that lie ``pitch`` apart, all at once or, if that is too far, one by one."""
    images, rows, channels = extents
    vectors = images * rows
    apart = [(first, images, rows)]
    if pitch > LONGEST_PITCH:
        apart, pitch = [(first + vector * pitch, 1, 1) for vector in range(vectors)], 0
    mantissa, exponent = constant(factor)
    for offset, n, h in apart:
        yield Step(
            Opcode.AVGPOOL, phases, place, {"a": tensor, "out": tensor},
            {"track": 1, "const_mantissa": mantissa, "const_exponent": exponent, "x_pitch": pitch, "y_pitch": pitch},
            {"n": n, "h": h, "w": 1, "c": channels, "oh": h, "ow": 1, "q": channels, "r": 1, "s": 1, "stride": 1},
            offsets={"a": offset, "out": offset}, name=layer.name, rest=True,
        )  # fmt: skip
