"""Random networks of the machine's operators but dropout and products of activations, and their batch in PyTorch."""

import random
from math import prod

import torch
from made_modules import Made
from torch import nn
from torch.nn import functional

__all__ = ["RandomNetwork", "gradients"]

CLAMPS = (nn.ReLU6, lambda: nn.Hardtanh(0.0, 0.4), lambda: nn.LeakyReLU(0.1), nn.ReLU, nn.ReLU)
MOST = 40000
"""Elements of a value."""


def _sum(_, x, y):
    return x + y


def _cat(_, *parts):
    return torch.cat(parts, 1)


def _second_half(_, x):
    return x.chunk(2, 1)[1]


def _divisors(number):
    return [each for each in range(1, number + 1) if number % each == 0]


class RandomNetwork(nn.Module):
    """A directed graph of ``size`` operators on images of a ``shape``, drawn from ``seed``, then linear layers.

    A share ``hosted`` of the operators are the host's. ``noise``: share of the largest magnitude by which elements of
    weights, of values and of their gradients are changed at random, as rounding does.
    """

    def __init__(self, seed: int, size: int, shape: tuple[int, int, int], n_classes: int, hosted: float = 0.1):
        super().__init__()
        self.draw, self.noise, self.hosted = random.Random(seed), 0.0, hosted
        self.parts, self.plan, self.shapes = nn.ModuleList(), list[tuple[int, ...]](), [shape]
        unused = {0}
        while len(self.plan) < size:
            source = self.draw.choice(sorted(unused) if self.draw.random() < 0.7 else range(len(self.shapes)))
            drawn = self._drawn(source)
            if drawn is None:
                continue
            part, operands = drawn
            with torch.no_grad():
                made = part.double()(*(torch.zeros(2, *self.shapes[each], dtype=torch.float64) for each in operands))
            if made.numel() > MOST or min(made.shape) == 0:
                continue
            unused = (unused - set(operands)) | {len(self.shapes)}
            self.shapes.append(tuple(made.shape[1:]))
            self._add(part, operands)
        heads = []
        for end in sorted(unused):
            flat = self.draw.random() < 0.5 and self._size(end) < 600
            self._add(nn.Flatten() if flat else nn.AdaptiveAvgPool2d(1), (end,))
            self.shapes.append((self._size(end),) if flat else (self.shapes[end][0], 1, 1))
            if not flat:
                self._add(nn.Flatten(), (len(self.plan),))
                self.shapes.append((self.shapes[-1][0],))
            self._add(nn.Linear(self._size(len(self.shapes) - 1), n_classes), (len(self.plan),))
            self.shapes.append((n_classes,))
            heads.append(len(self.plan))
        for other in heads[1:]:
            last = heads[0] if other == heads[1] else len(self.plan)
            self._add(Made(_sum), (last, other))
            self.shapes.append((n_classes,))

    def _size(self, place):
        return prod(self.shapes[place])

    def _add(self, part, operands):
        self.parts.append(part)
        self.plan.append(tuple(operands))

    def _drawn(self, source: int):
        """A module and the places of its operands; None if none fits."""
        draw, (c, h, w) = self.draw, self.shapes[source]
        alike = [place for place, shape in enumerate(self.shapes) if shape == self.shapes[source]]
        beside = [place for place, shape in enumerate(self.shapes) if shape[1:] == (h, w)]
        if draw.random() < self.hosted:
            parts = [nn.Sigmoid, nn.Tanh, lambda: nn.GroupNorm(1, c), nn.SiLU]
            parts += [lambda: Made(_second_half)] if c > 1 else []
            return draw.choice(parts)(), (source,)
        kind = draw.choice(("conv", "conv", "conv", "grouped", "depthwise", "norm", "norm", "clamp", "clamp", "max",
                            "average", "adaptive", "up", "add", "add", "cat"))  # fmt: skip
        if kind in ("conv", "grouped", "depthwise"):
            r, s = draw.choice([(1, 1), (3, 3), (3, 3), (5, 5), (1, 3), (3, 1), (2, 2), (4, 3), (7, 7)])
            if h + 2 * (r - 1) < r or w + 2 * (s - 1) < s:
                return None
            padding = draw.choice([(r // 2, s // 2), (r // 2, s // 2), (0, 0), (draw.randrange(r), draw.randrange(s))])
            if h + 2 * padding[0] < r or w + 2 * padding[1] < s:
                return None
            q, groups = draw.choice([1, 2, 3, 4, 5, 8, 12]), 1
            if kind == "depthwise":
                groups, q = c, c * draw.choice([1, 1, 1, 2])
            if kind == "grouped":
                groups = draw.choice(_divisors(c))
                q = groups * draw.choice([1, 2, 3])
            stride, bias = draw.choice([1, 1, 1, 2, 3]), draw.random() < 0.5
            return nn.Conv2d(c, q, (r, s), stride, padding, 1, groups, bias), (source,)
        if kind == "norm":
            return nn.BatchNorm2d(c), (source,)
        if kind == "clamp":
            return draw.choice(CLAMPS)(), (source,)
        if kind in ("max", "average"):
            r, s = draw.choice([(2, 2), (2, 2), (3, 3), (1, 1), (3, 2), (4, 4), (1, 3)])
            stride, padding = draw.choice([1, 2, 2, 3]), draw.choice([(0, 0), (r // 2, s // 2)])
            if h + 2 * padding[0] < r or w + 2 * padding[1] < s:
                return None
            if kind == "max":
                return nn.MaxPool2d((r, s), stride, padding), (source,)
            return nn.AvgPool2d((r, s), stride, padding, count_include_pad=draw.random() < 0.5), (source,)
        if kind == "adaptive":
            return nn.AdaptiveAvgPool2d((draw.choice(_divisors(h)), draw.choice(_divisors(w)))), (source,)
        if kind == "up":
            factor = draw.choice([2, 2, 3])
            return (nn.Upsample(scale_factor=factor, mode="nearest"), (source,)) if h * factor <= 14 else None
        if kind == "add":
            return Made(_sum), (source, draw.choice(alike))
        others = [draw.choice(beside) for _ in range(draw.choice([1, 1, 2]))]
        if sum(self.shapes[each][0] for each in (source, *others)) > 24:
            return None
        return Made(_cat), (source, *others)

    def changed(self, tensor):
        """A tensor with noise."""
        return tensor + (2 * torch.rand_like(tensor) - 1) * tensor.detach().abs().max() * self.noise

    def forward(self, x):
        values = [x]
        for part, operands in zip(self.parts, self.plan, strict=True):
            value = part(*(values[each] for each in operands))
            if self.noise:
                value = self.changed(value)
                if value.requires_grad:
                    value.register_hook(self.changed)
            values.append(value)
        return values[-1]


def gradients(module: RandomNetwork, images, labels, noise: float = 0.0) -> dict[str, torch.Tensor]:
    """The result and the parameters' gradients by name; those of a layer have the noise of its largest one."""
    module.noise = noise
    saved = {name: value.clone() for name, value in module.state_dict().items()}
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(module.changed(parameter))
    result = module(torch.from_numpy(images))
    module.zero_grad()
    functional.cross_entropy(result, torch.from_numpy(labels)).backward()
    found = {"result": result.detach()}
    for name, part in module.named_modules():
        own = dict(part.named_parameters(recurse=False))
        largest = max((float(each.grad.abs().max()) for each in own.values()), default=0.0)
        for key, each in own.items():
            change = (2 * torch.rand_like(each.grad) - 1) * largest * noise
            found[f"{name}.{key}"] = each.grad + change
    module.noise = 0.0
    module.load_state_dict(saved)
    return found
