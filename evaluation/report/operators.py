"""``docs/operators.md``: which operators of PyTorch the accelerator computes, which the host, which are refused.

``python -m adagp.evaluation.report.operators`` writes the page. Each row is an example that the compiler's front end is
asked about: for a machine without switches of hardware, then for machines with each.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_map

from ...host.compiler.capture import Captured, capture, path_of
from ...host.compiler.decompositions import DECOMPOSITIONS
from ...host.compiler.lowering import LoweringError
from ...host.compiler.partition import Partition
from ...spec.config import SWITCHES, Config
from ...spec.presets import preset
from ..checkout import require_checkout
from ..instruments.results import FOLDER
from .networks import networks
from .reference import table
from .switch_areas import switch_areas

__all__ = ["EXAMPLES", "PATH", "REFUSED", "Example", "page", "place"]

PATH = Path(__file__).parents[2] / "docs" / "operators.md"
"""The committed copy."""
BATCH, CHANNELS, SIDE = 2, 4, 8
HEAD = """# Operators

Written by `python -m adagp.evaluation.report.operators`, from the compiler and `results/`; edit nothing here.

`x` and `y` are results of convolutions, [2, 4, 8, 8]; where it says *rows*, of linear layers, [2, 6, 4]. *Device*:
the accelerator computes the operator and its backward pass. *With `SWITCH`*: it does if it is generated with
`Config.SWITCH = True` (`--switches SWITCH`, or `all`), else the host does. *Host*: the host computes it in float64
while the accelerator waits ([why](decisions/host-islands.md)); the reason stands beside it if the accelerator has the
operator in other forms. `adagp compile` says the same of your own network, and `--strict` refuses one with operators
on the host."""
REFUSED_HEAD = """## Refused

`adagp compile` and `adagp train` refuse a network in one line, which names the module."""


class _Operand:
    """A value of an example; it is shown by its name."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


X, Y = _Operand("x"), _Operand("y")


@dataclass(frozen=True)
class Example:
    """An operator as a user writes it: a module's class, or a function, and its arguments."""

    function: Any
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    rows: bool = False
    shown: str = ""

    @property
    def text(self) -> str:
        """The example as source."""
        if self.shown:
            return self.shown
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.options.items())]
        return f"{_name(self.function)}({', '.join(given)})"


def _of(function: Any, *args: Any, rows: bool = False, **options: Any) -> Example:
    return Example(function, args, options, rows)


def _name(function: Any) -> str:
    name = str(function.__name__).removeprefix("fft_")
    for prefix, place in (("nn", nn), ("torch", torch), ("functional", functional), ("torch.fft", torch.fft)):
        if getattr(place, name, None) is function:
            return f"{prefix}.{name}"
    return f"Tensor.{name}"


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "Convolutions": (
        _of(nn.Conv2d, 4, 6, 3, stride=2, padding=1), _of(nn.Conv2d, 4, 6, (1, 7), padding="same"),
        _of(nn.Conv2d, 4, 4, 3, groups=4), _of(nn.Conv2d, 4, 8, 3, groups=4), _of(nn.Conv2d, 4, 4, 3, groups=2),
        _of(nn.Conv2d, 4, 6, 3, dilation=2), _of(nn.Conv2d, 4, 6, 3, stride=(2, 1)),
        _of(nn.Conv2d, 4, 6, 3, padding=1, padding_mode="reflect"), _of(nn.ConvTranspose2d, 4, 6, 2, stride=2),
    ),
    "Linear layers and products": (
        _of(nn.Linear, 4, 6, rows=True), _of(nn.Linear, 8, 6), _of(torch.matmul, X, Y, rows=False),
        Example(lambda x, y: x @ y.transpose(1, 2), (X, Y), rows=True, shown="x @ y.transpose(1, 2)"),
        _of(functional.scaled_dot_product_attention, X, Y, Y, rows=True),
        _of(nn.TransformerEncoderLayer, 4, 2, 8, 0.1, batch_first=True, rows=True),
    ),
    "Activations": (
        _of(nn.ReLU), _of(nn.ReLU6), _of(nn.Hardtanh, 0.0, 2.0), _of(nn.Hardtanh), _of(functional.relu6, X),
        _of(torch.clamp, X, 0, 2), _of(torch.clamp_min, X, 0), _of(torch.clamp, X, -1, 1), _of(nn.LeakyReLU, 0.1),
        _of(nn.PReLU), _of(nn.Sigmoid), _of(nn.SiLU), _of(nn.Hardswish), _of(nn.GELU), _of(nn.Tanh),
        _of(nn.Softmax, 1),
    ),
    "Pooling": (
        _of(nn.MaxPool2d, 3, 2, 1), _of(nn.MaxPool2d, 3, 2, ceil_mode=True), _of(nn.AvgPool2d, 2),
        _of(nn.AvgPool2d, 3, 1, 1), _of(nn.AvgPool2d, 3, 1, 1, count_include_pad=False),
        _of(nn.AdaptiveAvgPool2d, 1), _of(nn.AdaptiveAvgPool2d, 4), _of(nn.AdaptiveAvgPool2d, 3),
        _of(torch.Tensor.mean, X, (2, 3)), _of(torch.Tensor.mean, X, 1), _of(nn.AdaptiveMaxPool2d, 1),
    ),
    "Norms": (
        _of(nn.BatchNorm2d, 4), _of(nn.BatchNorm1d, 6, rows=True), _of(nn.GroupNorm, 2, 4), _of(nn.LayerNorm, 8),
        _of(nn.InstanceNorm2d, 4),
    ),
    "Sums, and other arithmetic of two tensors": (
        _of(torch.add, X, Y), _of(torch.add, X, Y, alpha=2), _of(torch.sub, X, Y), _of(torch.mul, X, Y),
        _of(torch.add, X, 1.0), _of(torch.mul, X, 2.0),
    ),
    "Arrangement": (
        _of(torch.cat, [X, Y], 1), _of(torch.cat, [X, Y], 2), _of(nn.Flatten), _of(nn.Identity),
        _of(torch.permute, X, (0, 2, 3, 1)), _of(torch.chunk, X, 2, 1), _of(functional.pad, X, (1, 1, 1, 1)),
        _of(nn.Upsample, scale_factor=2, mode="nearest"), _of(nn.Upsample, scale_factor=2, mode="bilinear"),
        _of(nn.PixelShuffle, 2),
    ),
    "Randomness": (_of(nn.Dropout, 0.1), _of(nn.Dropout2d, 0.1)),
}  # fmt: skip
"""Examples by subject."""

REFUSED: tuple[Example, ...] = (
    _of(torch.Tensor.detach, X), _of(torch.heaviside, X, Y), _of(torch.Tensor.argmax, X, 1), _of(torch.unique, X),
    _of(torch.fft.fft2, X), Example(lambda x, y: x if x.mean() > 0 else y, (X, Y), shown="x if x.mean() > 0 else y"),
)  # fmt: skip
"""Examples that nobody computes."""


class _Network(nn.Module):
    """Two convolutions, or linear layers, whose results the example reads."""

    def __init__(self, example: Example):
        super().__init__()
        self.first, self.other = (
            nn.Linear(CHANNELS, CHANNELS) if example.rows else nn.Conv2d(3, CHANNELS, 1) for _ in range(2)
        )
        self.part = _Part(example)

    def forward(self, x):
        y = self.other(x)
        return self.part(self.first(x), y), y


class _Part(nn.Module):
    """The example."""

    def __init__(self, example: Example):
        super().__init__()
        self.example, self.module = example, None
        if isinstance(example.function, type):
            self.module = example.function(*example.args, **example.options)

    def forward(self, x, y):
        if self.module is not None:
            return self.module(x)
        values = {"x": x, "y": y}
        args = tree_map(lambda arg: values[arg.name] if isinstance(arg, _Operand) else arg, self.example.args)
        result = self.example.function(*args, **self.example.options)
        return result[0] if isinstance(result, tuple) else result


def _captured(example: Example, products: bool = False) -> Captured:
    shape = (BATCH, 6, CHANNELS) if example.rows else (BATCH, 3, SIDE, SIDE)
    return capture(_Network(example), (torch.zeros(shape),), products)


def place(captured: Captured, config: Config) -> tuple[str, str]:
    """``device`` or ``host`` or both for the example, and why not on the device if that has the operator."""
    partition = Partition(captured, BATCH, config)
    layers = [node for node in partition.layers if path_of(node).startswith("part")]
    reasons = dict.fromkeys(partition.reasons[node] for node in partition.host if node in partition.reasons)
    where = "host" if partition.host else "device"
    return ("device and host" if partition.host and layers else where), ", ".join(reasons)


def _designs() -> Iterator[tuple[str, Config]]:
    """The machine without switches, then with each."""
    yield "", preset("tiny")
    for switch in SWITCHES:
        on: dict[str, Any] = {switch: True}
        yield switch, replace(preset("tiny"), **on)


def _row(example: Example, designs: Sequence[tuple[str, Config]]) -> tuple[str, str, str]:
    captured = {False: _captured(example)}
    whole = any(node.target in DECOMPOSITIONS for node in captured[False].nodes)
    captured[True] = _captured(example, True) if whole else captured[False]
    found = {name: place(captured[config.matmul], config) for name, config in designs}
    where, why = found[""]
    switch, there = next(((name, there) for name, (there, _) in found.items() if there != "host"), ("", ""))
    if where == "host" and switch:
        where, why = f"with `{switch}`" + (", device and host" if there != "device" else ""), ""
    return f"`{example.text}`{', rows' * example.rows}", where, why


def _refusal(example: Example) -> tuple[str, str]:
    try:
        _captured(example)
    except LoweringError as error:
        return f"`{example.text}`", str(error)
    raise ValueError(f"{example.text} isn't refused")


def page() -> str:
    """Text of the page, in Markdown."""
    designs, parts = list(_designs()), [HEAD]
    for subject, examples in EXAMPLES.items():
        rows = [_row(example, designs) for example in examples]
        parts.append(f"## {subject}\n\n{table(('operator', 'computed by', 'reason'), rows)}")
    parts += filter(None, [networks(FOLDER), switch_areas(FOLDER)])
    parts.append(f"{REFUSED_HEAD}\n\n{table(('operator', 'message'), map(_refusal, REFUSED))}")
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m adagp.evaluation.report.operators", description=__doc__)
    parser.add_argument("path", type=Path, nargs="?", default=PATH, help="default: docs/operators.md")
    parser.parse_args(arguments).path.write_text(page())


if __name__ == "__main__":
    require_checkout()
    main()
