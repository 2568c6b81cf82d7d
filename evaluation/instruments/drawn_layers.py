"""Layers drawn from networks by kind, each as a network of its own that is compiled in a moment.

Before the layer stands a small one with weights, so that its gradients of inputs are needed; after it the mean of all
pixels.
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["DRAWN", "Layer", "alone", "kind_of_layer", "layers_of"]

DRAWN = (nn.Conv2d, nn.BatchNorm2d, nn.Linear, nn.MaxPool2d, nn.AvgPool2d)
"""Types of layers that are drawn."""
FEW = 4
"""Channels of the small layer's input."""

Layer = tuple[str, nn.Module, tuple[int, int, int]]
"""A layer's name, itself, and its input's shape: channels and a map, words as the pixels of one column."""


def kind_of_layer(layer: nn.Module) -> str:
    """The kind of a layer, by which layers are drawn."""
    if not isinstance(layer, nn.Conv2d):
        return type(layer).__name__
    depthwise = layer.groups == layer.in_channels > 1
    return f"{'depthwise ' * depthwise}{'x'.join(map(str, layer.kernel_size))} of stride {layer.stride[0]}"


def layers_of(module: nn.Module, inputs: Sequence[Tensor], seen: Mapping[str, int], seed: str) -> list[Layer]:
    """The layers that ``inputs`` go through: one of each kind, first those least often ``seen``, then all others."""
    kinds: dict[str, list[Layer]] = defaultdict(list)

    def hooked(name: str):
        def hook(layer: nn.Module, given: tuple[Tensor, ...], _: Tensor) -> None:
            sides = list(given[0].shape[1:])
            if isinstance(layer, nn.Linear):
                sides = [sides[-1], *sides[:-1]]
            c, h, w = [*sides, 1, 1][:3]
            kinds[kind_of_layer(layer)].append((name, layer, (c, h, w)))

        return hook

    hooks = [
        layer.register_forward_hook(hooked(name))
        for name, layer in module.named_modules() if isinstance(layer, DRAWN)
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
    _, drawn, (c, h, w) = layer
    if isinstance(drawn, nn.Linear):
        one: nn.Module = nn.Conv2d(drawn.in_features, drawn.out_features, 1, bias=drawn.bias is not None)
    elif isinstance(drawn, nn.Conv2d):
        sizes: Any = {name: getattr(drawn, name) for name in ("kernel_size", "stride", "padding", "groups")}
        one = nn.Conv2d(c, drawn.out_channels, bias=drawn.bias is not None, **sizes)
    elif isinstance(drawn, nn.BatchNorm2d):
        one = nn.BatchNorm2d(c)
    else:
        one = drawn
    return (FEW, h, w), nn.Sequential(nn.Conv2d(FEW, c, 1), one, nn.AdaptiveAvgPool2d(1), nn.Flatten())
