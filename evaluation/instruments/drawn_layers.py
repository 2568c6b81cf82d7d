"""Layers drawn from networks by kind, each as a network of its own that is compiled in a moment.

Before the layer stands a small one with weights, so that its gradients of inputs are needed; after it the mean of all
pixels.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["DRAWN", "SWITCHED", "Layer", "alone", "drawn", "kind_of_layer", "layers_of", "switched"]

DRAWN = (nn.Conv2d, nn.BatchNorm2d, nn.Linear, nn.MaxPool2d, nn.AvgPool2d)
"""Types of layers that are drawn."""
ACTIVATIONS = (nn.ReLU6, nn.LeakyReLU, nn.Dropout)
SWITCHED = (nn.BatchNorm2d, nn.MultiheadAttention, *ACTIVATIONS)
"""Types of layers that need one of the generator's switches; some convolutions do so too."""
FEW = 4
"""Channels of the small layer's input."""

Layer = tuple[str, nn.Module, tuple[int, int, int]]
"""A layer's name, itself, and its input's shape: channels and a map, words as the pixels of one column."""


class _Attention(nn.Module):
    """The pixels of a map attend to each other."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        x_NLC = x_NCHW.flatten(2).transpose(1, 2)
        return self.attention(x_NLC, x_NLC, x_NLC, need_weights=False)[0].transpose(1, 2).reshape(x_NCHW.shape)


def _depthwise(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Conv2d) and layer.groups == layer.in_channels > 1


def drawn(layer: nn.Module) -> bool:
    """True if a layer is of a type that is drawn."""
    return isinstance(layer, DRAWN)


def switched(layer: nn.Module) -> bool:
    """True if a layer needs one of the generator's switches."""
    return isinstance(layer, SWITCHED) or _depthwise(layer)


def kind_of_layer(layer: nn.Module) -> str:
    """The kind of a layer, by which layers are drawn."""
    if not isinstance(layer, nn.Conv2d):
        return type(layer).__name__
    kernel = "x".join(map(str, layer.kernel_size))
    return f"{'depthwise ' * _depthwise(layer)}{kernel} of stride {layer.stride[0]}"


def layers_of(
    module: nn.Module, inputs: Sequence[Tensor], seen: Mapping[str, int], seed: str,
    wanted: Callable[[nn.Module], bool] = drawn,
) -> list[Layer]:  # fmt: skip
    """The layers that ``inputs`` go through: one of each kind, first those least often ``seen``, then all others.

    Only layers that are ``wanted`` are taken.
    """
    kinds: dict[str, list[Layer]] = defaultdict(list)

    def hooked(name: str):
        def hook(layer: nn.Module, given: tuple[Tensor, ...], _: Tensor) -> None:
            sides = list(given[0].shape[1:])
            if len(sides) == 2:  # words by their width
                sides.reverse()
            c, h, w = [*sides, 1, 1][:3]
            kinds[kind_of_layer(layer)].append((name, layer, (c, h, w)))

        return hook

    hooks = [
        layer.register_forward_hook(hooked(name))
        for name, layer in module.named_modules() if wanted(layer)
    ]  # fmt: skip
    module.eval()
    with torch.no_grad():
        module(*inputs)
    for handle in hooks:
        handle.remove()
    draw = random.Random(seed)
    for each in kinds.values():
        draw.shuffle(each)
    ordered = [kinds[kind] for kind in sorted(kinds, key=lambda kind: (seen.get(kind, 0), draw.random()))]
    return [layer for turn in zip_longest(*ordered) for layer in turn if layer is not None]


def alone(layer: Layer) -> tuple[tuple[int, int, int], nn.Module]:
    """The shape of the inputs, and the network of a layer with new weights."""
    _, old, (c, h, w) = layer
    before = c
    if isinstance(old, nn.Linear):
        one: nn.Module = nn.Conv2d(old.in_features, old.out_features, 1, bias=old.bias is not None)
    elif isinstance(old, nn.Conv2d):
        sizes: Any = {name: getattr(old, name) for name in ("kernel_size", "stride", "padding", "groups")}
        one = nn.Conv2d(c, old.out_channels, bias=old.bias is not None, **sizes)
    elif isinstance(old, nn.BatchNorm2d):
        one = nn.BatchNorm2d(c)
    elif isinstance(old, nn.MultiheadAttention):
        one = _Attention(old.embed_dim, old.num_heads)
    elif isinstance(old, ACTIVATIONS):  # in the epilogue of a layer, or after it
        before, one = FEW, nn.Sequential(nn.Conv2d(FEW, c, 1), deepcopy(old).train())
    else:
        one = old
    return (FEW, h, w), nn.Sequential(nn.Conv2d(FEW, before, 1), one, nn.AdaptiveAvgPool2d(1), nn.Flatten())
