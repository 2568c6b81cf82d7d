"""From torch.nn.Sequential to the accelerator's layers; modules that it doesn't have are refused by name."""

from dataclasses import dataclass, replace
from enum import Enum

from torch import nn

from ...spec.config import Config
from ...spec.norm import WEIGHT_PLANES
from ...spec.numerics import SLOPE_BITS, operand_max
from .module_checks import Refused, check_module, check_parameters, check_used, is_depthwise, require
from .values import INPUT, output_name

__all__ = ["KNOWN", "Kind", "Layer", "LoweringError", "lower"]


class LoweringError(ValueError):
    """Raised for a network that can't be run; the message names the module and the reason."""


class Kind(Enum):
    """The function of a layer."""

    GEMM = "conv"
    DEPTHWISE = "depthwise"
    """A convolution with a filter of one channel for each channel."""
    MAXPOOL = "maxpool"
    AVGPOOL = "avgpool"
    UPSAMPLE = "upsample"
    """Each value r by s times."""
    NORM = "norm"
    """Batch norm."""
    DROPOUT = "dropout"
    """Elements drawn at random become 0 in training, the others are multiplied by a constant."""
    JOIN = "join"
    """A concatenation along channels, which becomes a Join."""
    PRODUCT = "product"
    """A product of two values, which becomes a Product."""


@dataclass(frozen=True)
class Layer:
    """A part of a network that one forward command computes: shapes as in spec/commands.py, a ReLU fused if ``relu``.

    ``parameters`` are the state-dict names of weight and bias ("" for none), ``torch_shape`` the weight's
    shape there; ``frozen``: they aren't trained. ``scale`` is the constant of an AVGPOOL. ``inputs`` are names of
    values: the one that it computes from, and perhaps another that is added to the result, before a ReLU. A NORM has
    gamma and beta as parameters, and the names of its running mean, variance and count of batches as ``buffers``.
    Its filters are the rows of its parameters from ``first_row`` on.
    ``bound``: the most that the ReLU gives, 0 for no bound; ``slope``: its slope below zero, in 2^-SLOPE_BITS.
    ``drop``: probability of a DROPOUT, in 2^-PROBABILITY_BITS; its ``scale`` is that of elements that stay.
    ``groups``: those of a GEMM's channels and filters. ``inside``: an AVGPOOL averages without its padding.
    ``fused``: names of further operators that its command computes, as the module has them.
    """

    kind: Kind
    name: str
    c: int
    h: int
    w: int
    q: int
    oh: int
    ow: int
    r: int = 1
    s: int = 1
    stride: int = 1
    pad_y: int = 0
    pad_x: int = 0
    relu: bool = False
    scale: float = 1.0
    parameters: tuple[str, str] = ("", "")
    torch_shape: tuple[int, ...] = ()
    inputs: tuple[str, ...] = ()
    frozen: bool = False
    buffers: tuple[str, ...] = ()
    epsilon: float = 0.0
    momentum: float = 0.0
    bound: float = 0.0
    slope: int = 0
    first_row: int = 0
    drop: int = 0
    groups: int = 1
    inside: bool = False
    fused: tuple[str, ...] = ()

    @property
    def weighted(self) -> bool:
        """True if it has weights."""
        return self.kind in (Kind.GEMM, Kind.DEPTHWISE, Kind.NORM)

    @property
    def trains(self) -> bool:
        """True if its weights are trained."""
        return self.weighted and not self.frozen

    @property
    def state(self) -> tuple[str, ...]:
        """Its tensors that outlast a batch."""
        return ("weight", "low", "momentum", *["statistics"] * (self.kind is Kind.NORM))

    @property
    def weight_shape(self) -> tuple[int, int]:
        """Shape of its weights in memory: filters, or gamma and beta."""
        return (WEIGHT_PLANES, self.c) if self.kind is Kind.NORM else (self.q, self.filter_elements)

    @property
    def addend(self) -> str:
        """The value that is added to its result; "" if there is none."""
        return self.inputs[1] if len(self.inputs) > 1 else ""

    @property
    def output(self) -> str:
        """Name of the value that it computes."""
        return output_name(self.name)

    @property
    def bias(self) -> bool:
        return bool(self.parameters[1])

    @property
    def depth(self) -> int:
        """Channels of a filter."""
        return 1 if self.kind is Kind.DEPTHWISE else self.c // self.groups

    @property
    def filter_elements(self) -> int:
        """Operands of a filter's row in DRAM: its weights and the place of its bias."""
        return self.r * self.s * self.depth + 1

    @property
    def clamps(self) -> bool:
        """True if its ReLU takes hardware for bounds and slopes."""
        return bool(self.bound or self.slope)

    @property
    def activation(self) -> str:
        """Its ReLU in words; "" if it has none."""
        bound = f" up to {self.bound:g}" if self.bound else ""
        slope = f" with slope {self.slope / (1 << SLOPE_BITS):.4g}" if self.slope else ""
        return f"relu{bound}{slope}" if self.relu else ""

    @property
    def copies(self) -> bool:
        """True if results are values of the input (at most after a ReLU), at its exponent."""
        alone = self.kind is Kind.AVGPOOL and self.r * self.s == self.stride == self.scale == 1 and len(self.inputs) < 2
        return self.kind is Kind.MAXPOOL or alone

    def geometry(self) -> dict[str, int]:
        """The shape by command field, without the batch; an upsampling's is that of the pooling that undoes it."""
        names = ("c", "h", "w", "q", "oh", "ow", "r", "s", "stride", "pad_y", "pad_x")
        fields = {name: getattr(self, name) for name in names}
        if self.kind is Kind.UPSAMPLE:
            fields |= {"h": self.oh, "w": self.ow, "oh": self.h, "ow": self.w}
        return fields


def lower(network: nn.Sequential, input_shape: tuple[int, ...], config: Config) -> list[Layer]:
    """The layers of ``network`` for inputs of ``input_shape``, (C, H, W) or (features,), without the batch.

    Understands Conv2d, Linear, ReLU, MaxPool2d, AvgPool2d, Flatten and Identity, in nested Sequentials too. Modules
    must be called as PyTorch calls them, without hooks or a ``forward`` of their own, and each parameter must be one
    module's. Raises :class:`LoweringError`.
    """
    if not isinstance(network, nn.Sequential):
        raise LoweringError(f"a network must be a torch.nn.Sequential, not {type(network).__name__}")
    if len(input_shape) not in (1, 3) or min(input_shape) < 1:
        raise LoweringError(f"an input shape must be (C, H, W) or (features,), not {tuple(input_shape)!r}")
    builder = _Builder(tuple(input_shape), config)
    for name, module in network.named_modules(remove_duplicate=False):
        where = f"{name or 'the network'} ({type(module).__name__})"
        try:
            check_module(module)
            check_used(module)
            if isinstance(module, nn.Sequential):
                continue
            add = _HANDLERS.get(type(module))
            if add is None:
                hint = _HINTS.get(type(module).__name__.rstrip("123d"), "not supported")
                raise Refused(f"{hint}; supported are {', '.join(kind.__name__ for kind in _HANDLERS)}")
            add(builder, name, module)
        except Refused as refused:
            raise LoweringError(f"{where}: {refused}") from None
    if not any(layer.weighted for layer in builder.layers):
        raise LoweringError("the network has no layer with weights")
    return builder.layers


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


class _Builder:
    """The layers so far and the shape of the value they end in."""

    def __init__(self, shape, config):
        self.config = config
        self.flat = len(shape) == 1
        self.c, self.h, self.w = (*shape, 1, 1) if self.flat else shape
        self.layers = []
        self.owners: dict[int, tuple[str, nn.Parameter]] = {}

    def conv(self, name, module):
        depthwise = is_depthwise(module.groups, module.in_channels, module.out_channels)
        require(not depthwise or self.config.depthwise, f"groups = {module.groups}, without the switch depthwise")
        require(_pair(module.dilation) == (1, 1), f"dilation = {module.dilation}, only 1 is supported")
        require(module.padding_mode == "zeros", f"padding_mode = {module.padding_mode!r}, only 'zeros' is supported")
        r, s = module.kernel_size
        padding = module.padding
        if padding == "same":
            require(r % 2 and s % 2, f"padding 'same' needs an odd kernel, not {r}x{s}")
            padding = (r // 2, s // 2)
        padding = (0, 0) if padding == "valid" else padding
        require(module.in_channels == self.c, f"takes {module.in_channels} channels, but {self.c} arrive")
        window = self._window(module.kernel_size, module.stride, padding)
        kind, groups = (Kind.DEPTHWISE, 1) if depthwise else (Kind.GEMM, module.groups)
        self._add(kind, name, module, module.out_channels, window, groups=groups)

    def linear(self, name, module):
        require(self.flat, f"needs Flatten before it, the value is {self.c}x{self.h}x{self.w}")
        features = self.c * self.h * self.w
        require(module.in_features == features, f"takes {module.in_features} features, but {features} arrive")
        self._add(Kind.GEMM, name, module, module.out_features, self._window((self.h, self.w), 1, 0, flat=True))

    def relu(self, name, module):
        if self.layers:
            self.layers[-1] = replace(self.layers[-1], relu=True, fused=(*self.layers[-1].fused, f"{name}.ReLU"))
        else:
            self._add(Kind.AVGPOOL, name, module, self.c, self._window(1, 1, 0, flat=True), relu=True)

    def maxpool(self, name, module):
        require(_pair(module.dilation) == (1, 1), f"dilation = {module.dilation}, only 1 is supported")
        require(not module.return_indices, "return_indices is not supported")
        window = self._pool_window(module)
        taps, most = window["r"] * window["s"], operand_max(self.config.operand_width)
        require(taps <= most, f"a window of {taps} elements exceeds the index tensor's {most}")
        self._add(Kind.MAXPOOL, name, module, self.c, window)

    def avgpool(self, name, module):
        window = self._pool_window(module)
        divisor = module.divisor_override or window["r"] * window["s"]
        inside = any(_pair(module.padding)) and not (module.count_include_pad or module.divisor_override)
        self._add(Kind.AVGPOOL, name, module, self.c, window, scale=1 / divisor, inside=inside)

    def flatten(self, name, module):
        ends = (module.start_dim, module.end_dim)
        require(ends in ((1, -1), (1, 3)), f"flattens dimensions {ends}, only all but the batch")
        self.flat = True

    def identity(self, name, module):
        """Add no layer."""

    def _pool_window(self, module):
        require(not module.ceil_mode, "ceil_mode is not supported")
        return self._window(module.kernel_size, module.stride, module.padding)

    def _window(self, kernel, stride, padding, flat=False):
        require(flat or not self.flat, "needs a (C, H, W) value, but a flattened one arrives")
        (r, s), strides, (pad_y, pad_x) = _pair(kernel), _pair(stride), _pair(padding)
        require(strides[0] == strides[1], f"stride = {strides}, it must be the same in both directions")
        require(pad_y < r and pad_x < s, f"padding {pad_y},{pad_x} must be below the kernel's {r}x{s}")
        oh = (self.h + 2 * pad_y - r) // strides[0] + 1
        ow = (self.w + 2 * pad_x - s) // strides[0] + 1
        require(oh > 0 and ow > 0, f"a kernel of {r}x{s} doesn't fit an input of {self.h}x{self.w}")
        for what, value in (("kernel", max(r, s)), ("stride", strides[0])):
            require(value <= 255, f"{what} of {value} exceeds 255")
        return {"r": r, "s": s, "stride": strides[0], "pad_y": pad_y, "pad_x": pad_x, "oh": oh, "ow": ow}

    def _add(self, kind, name, module, channels, window, **more):
        if kind in (Kind.GEMM, Kind.DEPTHWISE):
            check_parameters(module, self.owners, name)
            frozen = {not parameter.requires_grad for parameter in module.parameters()}
            require(len(frozen) == 1, "only one of weight and bias is frozen, which isn't supported in a Sequential")
            more["frozen"] = frozen.pop()
            more["parameters"] = (f"{name}.weight", f"{name}.bias" if module.bias is not None else "")
            more["torch_shape"] = tuple(module.weight.shape)
        for what, value in (("channels", max(channels, self.c)), ("height or width", max(self.h, self.w))):
            require(value <= 65535, f"{value} {what} exceed 65535")
        more = {**window, **more, "inputs": (self.layers[-1].output if self.layers else INPUT,)}
        self.layers.append(Layer(kind, f"{name}.{type(module).__name__}", self.c, self.h, self.w, channels, **more))
        self.c, self.h, self.w = channels, window["oh"], window["ow"]


_HANDLERS = {
    nn.Conv2d: _Builder.conv,
    nn.Linear: _Builder.linear,
    nn.ReLU: _Builder.relu,
    nn.MaxPool2d: _Builder.maxpool,
    nn.AvgPool2d: _Builder.avgpool,
    nn.Flatten: _Builder.flatten,
    nn.Identity: _Builder.identity,
}
KNOWN = tuple(_HANDLERS)
"""Types of modules that :func:`lower` takes."""

_HINTS = {
    "BatchNorm": "not supported yet: fold it into the layer before or remove it",
    "Dropout": "not supported yet: remove it",
    "AdaptiveAvgPool": "not supported: use AvgPool2d with the size it works out to",
    "AdaptiveMaxPool": "not supported: use MaxPool2d with the size it works out to",
}
