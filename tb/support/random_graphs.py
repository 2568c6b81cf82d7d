"""Random modules with branches: convolutions, additions, norms, pools, ReLUs of all kinds and operators of the host."""

import random
from math import gcd

import torch
from torch import nn
from torch.nn import functional

__all__ = ["RandomGraph"]

KINDS = (
    "conv", "conv", "depthwise", "norm", "relu", "clamp", "pool", "average", "sigmoid", "add", "add", "cat", "up",
)  # fmt: skip
CLAMPS = (nn.ReLU6, lambda: nn.Hardtanh(0.0, 0.4), lambda: nn.LeakyReLU(0.1))
"""ReLUs with a bound or a slope; values seldom reach the bound of the first."""


class RandomGraph(nn.Module):
    """A directed graph of ``size`` operators on images, drawn from ``seed``, then an average and a linear layer.

    With ``dropout`` some results, a third or so, go through one of that probability. With ``more``, convolutions have
    groups where they can, and averages have padding that doesn't count.
    """

    def __init__(
        self, seed: int, size: int, channels: int, side: int, n_classes: int, dropout: float = 0.0, more=False
    ):
        super().__init__()
        rng, draw = random.Random(seed), random.Random(f"dropout {seed}")
        self.dropout, self.dropped = dropout, [dropout > 0 and draw.random() < 0.35 for _ in range(size)]
        self.parts, self.plan = nn.ModuleList(), []
        shapes, unused = [(channels, side)], {0}
        for _ in range(size):
            source = rng.choice(sorted(unused) if rng.random() < 0.6 else range(len(shapes)))
            depth, width = shapes[source]
            alike = [place for place, shape in enumerate(shapes) if shape == shapes[source] and place != source]
            kind = rng.choice(KINDS)
            if width < 2 and kind in ("pool", "average"):
                kind = "conv"
            if kind in ("add", "cat") and (not alike or (depth > 12 and kind == "cat")):
                kind = "relu"
            if kind == "up" and width > 4:
                kind = "norm"
            operands = [source, rng.choice(alike)] if kind in ("add", "cat") else [source]
            part: nn.Module = nn.Identity()
            if kind in ("conv", "depthwise"):
                after = rng.choice([3, 5, 8]) if kind == "conv" else depth
                shared = gcd(depth, after)
                groups = draw.choice([n for n in range(1 + (shared > 1), shared + 1) if shared % n == 0]) if more else 1
                groups = groups if kind == "conv" else depth
                stride, kernel = rng.choice([(1, 1), (1, 3), (2, 3)]) if width > 2 else (1, 1)
                part = nn.Conv2d(depth, after, kernel, stride, kernel // 2, 1, groups, bias=rng.random() < 0.5)
                depth, width = after, (width - 1) // stride + 1
            elif kind == "clamp":
                part = rng.choice(CLAMPS)()
            elif kind == "norm":
                part = nn.BatchNorm2d(depth)
            elif kind in ("pool", "average"):
                average = nn.AvgPool2d(4, 2, 1, count_include_pad=False) if more else nn.AvgPool2d(2)
                part, width = (nn.MaxPool2d(2) if kind == "pool" else average), width // 2
            elif kind == "cat":
                depth *= 2
            elif kind == "up":
                width *= 2
            self.parts.append(part)
            self.plan.append((kind, operands))
            unused = (unused - set(operands)) | {len(shapes)}
            shapes.append((depth, width))
        self.ends = sorted(unused)
        self.head = nn.Linear(sum(shapes[place][0] for place in self.ends), n_classes)

    def forward(self, x):
        values = [x]
        for part, (kind, operands), dropped in zip(self.parts, self.plan, self.dropped, strict=True):
            taken = [values[place] for place in operands]
            if kind == "add":
                value = taken[0] + taken[1]
            elif kind == "cat":
                value = torch.cat(taken, 1)
            elif kind == "relu":
                value = functional.relu(taken[0])
            elif kind == "sigmoid":
                value = torch.sigmoid(taken[0])
            elif kind == "up":
                value = functional.interpolate(taken[0], scale_factor=2, mode="nearest")
            else:
                value = part(taken[0])
            values.append(functional.dropout(value, self.dropout, self.training) if dropped else value)
        means = [functional.adaptive_avg_pool2d(values[place], 1).flatten(1) for place in self.ends]
        return self.head(torch.cat(means, 1) if len(means) > 1 else means[0])
