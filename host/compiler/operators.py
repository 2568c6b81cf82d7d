"""Operators that the machine computes: from a captured node to the geometry of a layer.

Each handler returns a :class:`Layer` without name and inputs, or raises Refused with the reason why the machine can't
compute this one; the host then does.
"""

import operator
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import fx

from ...spec.config import Config
from ...spec.dropout import PROBABILITY_BITS
from ...spec.numerics import SLOPE_BITS, operand_max
from .capture import shape_of
from .lowering import Kind, Layer
from .module_checks import is_depthwise, require
from .operator_sets import BATCH_NORM, DROPOUT, RELUS

__all__ = ["argument", "data_of", "handled", "is_dropout", "is_norm", "layer_of", "weights_of"]

_ATEN = torch.ops.aten


def argument(node: fx.Node, place: int, name: str, default=None):
    """An argument of an operator, by place or by name."""
    if place < len(node.args):
        return node.args[place]
    return node.kwargs.get(name, default)


def is_norm(node: fx.Node) -> bool:
    """True if a node is the result of a batch norm, beside which that has new statistics."""
    args: list[Any] = list(node.args)
    return node.target is operator.getitem and args[0].target is BATCH_NORM and args[1] == 0


def is_dropout(node: fx.Node) -> bool:
    """True if a node is the result of a dropout, beside which that has its mask."""
    args: list[Any] = list(node.args)
    return node.target is operator.getitem and args[0].target is DROPOUT and args[1] == 0


def weights_of(node: fx.Node) -> list[fx.Node]:
    """The arguments of an operator that are nodes, but no values."""
    args: list[Any] = list(node.args)
    if is_norm(node):
        return [arg for arg in args[0].args[1:3] if arg is not None]
    data = data_of(node)
    return [arg for arg in (*args[1:], *node.kwargs.values()) if isinstance(arg, fx.Node) and arg not in data]


def data_of(node: fx.Node) -> list[Any]:
    """The arguments of an operator of the machine that are values, not weights."""
    args: list[Any] = list(node.args)
    if is_norm(node) or is_dropout(node):
        return [args[0].args[0]]
    if node.target is _ATEN.cat.default:
        return list(args[0])
    return args[: 2 if node.target is _ATEN.add.Tensor else 1]


def handled(node: fx.Node) -> bool:
    """True if the machine computes such an operator in some form."""
    return is_norm(node) or is_dropout(node) or node.target in _HANDLERS


def layer_of(
    node: fx.Node, shapes: list[tuple[int, int, int, int]], flat: bool, batch: int, config: Config
) -> Layer | None:
    """The layer that computes ``node``, None if the machine has no such operator; raises Refused.

    ``shapes`` are those of its operands in memory [n, y, x, channel]. ``flat``: the node sees the first one flattened.
    """
    handler = _norm if is_norm(node) else _dropout if is_dropout(node) else _HANDLERS.get(node.target)
    lacks = (handler is _norm and not config.batch_norm) or (handler is _dropout and not config.dropout)
    if handler is None or lacks:
        return None
    alike = node.target in RELUS or handler is _dropout  # it lies in memory as its operand does
    require(not flat or alike or handler is _linear, "it follows a flatten")
    require(handler not in _OF_IMAGES or len(shape_of(data_of(node)[0])) == 4, "its input isn't [N, C, H, W]")
    if handler is not _linear or not flat:
        shapes = [_by_batch(shape, batch) for shape in shapes]
    layer = handler(node, shapes, flat)
    result = shape_of(node)
    if len(result) == 4 and not alike:
        got = (batch, layer.q, layer.oh, layer.ow)
        require(result == got, f"its result has the shape {result}, and the machine's would have {got}")
    require(max(layer.r, layer.s, layer.stride) <= 255, "a kernel or stride above 255")
    require(max(layer.c, layer.q, layer.h, layer.w, layer.oh, layer.ow) <= 65535, "more than 65535 channels or pixels")
    require(not layer.clamps or config.clamps, "a bound or a slope, without the switch clamps")
    require(layer.kind is not Kind.DEPTHWISE or config.depthwise, f"groups = {layer.c}, without the switch depthwise")
    taps = layer.r * layer.s
    values = batch * layer.h * layer.w
    of_channel = f"{values} values a channel, and it needs 2 to {config.max_values}"
    require(layer.kind is not Kind.NORM or 2 <= values <= config.max_values, of_channel)
    most = {Kind.MAXPOOL: operand_max(config.operand_width)}
    most |= dict.fromkeys((Kind.AVGPOOL, Kind.UPSAMPLE), config.max_average_taps)
    require(taps <= most.get(layer.kind, taps), f"a window of {taps} elements, more than {most.get(layer.kind)}")
    return layer


def _by_batch(shape, batch):
    """Rows of any number as those of ``batch`` images."""
    n, h, w, c = shape
    if n == batch:
        return shape
    require(h == 1 and n * w % batch == 0, f"its {n * h * w} rows aren't the same number for each of {batch} images")
    return batch, 1, n * w // batch, c


def _pair(value):
    value = [value] if isinstance(value, int) else list(value)
    return tuple(value * 2 if len(value) == 1 else value)


def _window(shape, kernel, stride, padding):
    (r, s), (down, right), (pad_y, pad_x) = _pair(kernel), _pair(stride), _pair(padding)
    _, h, w, c = shape
    require(down == right, f"stride = {(down, right)}, it must be the same in both directions")
    require(pad_y < r and pad_x < s, f"padding {pad_y},{pad_x} must be below the kernel's {r}x{s}")
    oh, ow = (h + 2 * pad_y - r) // down + 1, (w + 2 * pad_x - s) // down + 1
    require(oh > 0 and ow > 0, f"a kernel of {r}x{s} doesn't fit an input of {h}x{w}")
    return {"c": c, "h": h, "w": w, "oh": oh, "ow": ow, "r": r, "s": s, "stride": down, "pad_y": pad_y, "pad_x": pad_x}


def _convolution(node, shapes, flat):
    weight = shape_of(node.args[1])
    q, _, r, s = weight
    stride, padding = argument(node, 3, "stride", 1), argument(node, 4, "padding", 0)
    dilation, groups = argument(node, 5, "dilation", 1), argument(node, 6, "groups", 1)
    depthwise = is_depthwise(groups, shapes[0][3], q)
    require(_pair(dilation) == (1, 1), f"dilation = {dilation}, it must be 1")
    if padding == "same":
        require(r % 2 == s % 2 == 1, f"padding 'same' needs an odd kernel, not {r}x{s}")
        padding = (r // 2, s // 2)
    padding = 0 if padding == "valid" else padding
    kind, groups = (Kind.DEPTHWISE, 1) if depthwise else (Kind.GEMM, groups)
    return Layer(kind, "", q=q, torch_shape=weight, groups=groups, **_window(shapes[0], (r, s), stride, padding))


def _linear(node, shapes, flat):
    weight = shape_of(node.args[1])
    _, h, w, c = shapes[0]
    if flat:
        return Layer(Kind.GEMM, "", c, h, w, weight[0], 1, 1, h, w, torch_shape=weight)
    require(len(shape_of(node.args[0])) != 4, "its input has four dimensions, and can have two or three")
    return Layer(Kind.GEMM, "", c, h, w, weight[0], h, w, torch_shape=weight)


def _relu(node, shapes, flat):
    _, h, w, c = shapes[0]
    return Layer(Kind.AVGPOOL, "", c, h, w, c, h, w, relu=True)


def _dropout(node, shapes, flat):
    drop = round(node.args[0].args[1] * 2**PROBABILITY_BITS)
    require(drop < 2**PROBABILITY_BITS, "its probability is 1")
    _, h, w, c = shapes[0]
    scale = 2**PROBABILITY_BITS / (2**PROBABILITY_BITS - drop)
    return Layer(Kind.DROPOUT, "", c, h, w, c, h, w, scale=scale, drop=drop)


def _clamp(node, shapes, flat):
    """ReLU6 and its like: hardtanh and clamp from 0 on."""
    low, high = argument(node, 1, "min"), argument(node, 2, "max")
    if node.target is _ATEN.hardtanh.default:
        low, high = argument(node, 1, "min_val", -1), argument(node, 2, "max_val", 1)
    if node.target is _ATEN.relu6.default:
        low, high = 0, 6
    require(low == 0, f"its lower bound is {low}, not 0")
    require(high is None or (isinstance(high, (int, float)) and 2**-64 < high < 2**64), f"its upper bound is {high}")
    return replace(_relu(node, shapes, flat), bound=float(high or 0))


def _leaky_relu(node, shapes, flat):
    slope = argument(node, 1, "negative_slope", 0.01)
    require(0 <= slope < 1, f"its slope is {slope}, not from 0 up to 1")
    return replace(_relu(node, shapes, flat), slope=min(round(slope * 2**SLOPE_BITS), 2**SLOPE_BITS - 1))


def _add(node, shapes, flat):
    require(len(shapes) == 2 and shapes[0] == shapes[1], "its inputs differ in shape")
    require(shape_of(node.args[0]) == shape_of(node.args[1]), "its inputs differ in shape")
    require(argument(node, 2, "alpha", 1) == 1, "alpha must be 1")
    _, h, w, c = shapes[0]
    return Layer(Kind.AVGPOOL, "", c, h, w, c, h, w)


def _norm(node, shapes, flat):
    _, weight, bias, mean, variance, training, momentum, epsilon = node.args[0].args
    require(weight is not None and bias is not None, "it has no weight and bias (affine)")
    kept = training and mean is not None and variance is not None
    require(kept, "it is in evaluation mode, or has no running statistics")
    require(momentum and 2**-16 < momentum < 1, f"momentum = {momentum}, it must be above 0 and below 1")
    require(len(shape_of(node)) in (2, 4), "its input isn't [N, C] or [N, C, H, W]")
    _, h, w, c = shapes[0]
    return Layer(Kind.NORM, "", c, h, w, c, h, w, torch_shape=(c,), epsilon=epsilon, momentum=momentum)


def _cat(node, shapes, flat):
    ranks = {len(shape_of(each)) for each in data_of(node)}
    require(len(ranks) == 1 and argument(node, 1, "dim", 0) % (rank := ranks.pop()) == (1 if rank == 4 else rank - 1),
            "it concatenates another dimension than the channels")  # fmt: skip
    require(len({shape[:3] for shape in shapes}) == 1, "its inputs differ in shape")
    _, h, w, _ = shapes[0]
    channels = sum(shape[3] for shape in shapes)
    return Layer(Kind.JOIN, "", channels, h, w, channels, h, w)


def _max_pool(node, shapes, flat):
    kernel = node.args[1]
    require(_pair(argument(node, 4, "dilation", 1)) == (1, 1), "dilation must be 1")
    window = _window(shapes[0], kernel, argument(node, 2, "stride") or kernel, argument(node, 3, "padding", 0))
    return Layer(Kind.MAXPOOL, "", q=shapes[0][3], **window)


def _average_pool(node, shapes, flat):
    kernel, divisor = node.args[1], argument(node, 6, "divisor_override")
    padding = _pair(argument(node, 3, "padding", 0))
    inside = any(padding) and not (argument(node, 5, "count_include_pad", True) or divisor)
    window = _window(shapes[0], kernel, argument(node, 2, "stride") or kernel, padding)
    scale = 1 / (divisor or window["r"] * window["s"])
    return Layer(Kind.AVGPOOL, "", q=shapes[0][3], scale=scale, inside=inside, **window)


def _adaptive_pool(node, shapes, flat):
    (_, h, w, c), (_, _, oh, ow) = shapes[0], shape_of(node)
    if oh > h and oh % h == 0 and oh // h == ow / w:  # each window is one element, which several have
        return _upsample(node, shapes, flat)
    (r, down), (s, right) = (_alike(*axis) for axis in ((h, oh), (w, ow)))
    stride = down or right or 1
    require({down, right} <= {None, stride}, f"stride = {(down, right)}, it must be the same in both directions")
    return Layer(Kind.AVGPOOL, "", q=c, scale=1 / (r * s), **_window(shapes[0], (r, s), stride, 0))


def _alike(size: int, windows: int) -> tuple[int, int | None]:
    """Size and stride of an adaptive pooling's windows along an axis; raises Refused unless they are all alike.

    A single window has no stride.
    """
    begins = [place * size // windows for place in range(windows)]
    sizes = {-(-(place + 1) * size // windows) - begin for place, begin in enumerate(begins)}
    strides: set[int | None] = {after - before for before, after in pairwise(begins)}
    strides = strides or {None}
    require(len(sizes) == len(strides) == 1 and 0 not in strides, "its windows differ in size or stride")
    return sizes.pop(), strides.pop()


def _mean(node, shapes, flat):
    dims = {dim % len(shape_of(node.args[0])) for dim in argument(node, 1, "dim") or ()}
    require(len(shape_of(node.args[0])) == 4 and dims == {2, 3}, "it averages other dimensions than height and width")
    _, h, w, c = shapes[0]
    return Layer(Kind.AVGPOOL, "", q=c, scale=1 / (h * w), **_window(shapes[0], (h, w), 1, 0))


def _upsample(node, shapes, flat):
    (_, h, w, c), (_, _, oh, ow) = shapes[0], shape_of(node)
    require(oh % h == 0 and oh // h == ow / w, "a factor that isn't a whole number, the same in both directions")
    return Layer(Kind.UPSAMPLE, "", c, h, w, c, oh, ow, oh // h, oh // h, oh // h)


_HANDLERS: dict[object, Callable] = {
    _ATEN.conv2d.default: _convolution, _ATEN.conv2d.padding: _convolution, _ATEN.linear.default: _linear,
    _ATEN.relu.default: _relu, _ATEN.relu6.default: _clamp, _ATEN.hardtanh.default: _clamp,
    _ATEN.clamp.default: _clamp, _ATEN.clamp_min.default: _clamp, _ATEN.leaky_relu.default: _leaky_relu,
    _ATEN.add.Tensor: _add, _ATEN.cat.default: _cat, _ATEN.max_pool2d.default: _max_pool,
    _ATEN.avg_pool2d.default: _average_pool, _ATEN.adaptive_avg_pool2d.default: _adaptive_pool,
    _ATEN.mean.dim: _mean, _ATEN.upsample_nearest2d.vec: _upsample, _ATEN.upsample_nearest2d.default: _upsample,
}  # fmt: skip

_OF_IMAGES = (_convolution, _max_pool, _average_pool, _adaptive_pool, _upsample)
"""Handlers of operators that take other tensors than [N, C, H, W] for something else."""
