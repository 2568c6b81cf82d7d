"""What the commands of the command line share: options, the screen, summaries in JSON."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..spec.presets import PRESETS
from .run_folder import write_atomically
from .settings import SOURCES, VARIANTS

__all__ = [
    "BatchOption", "ClassesOption", "DeviceOption", "JsonOption", "ModelOption", "PresetOption", "RunArgument",
    "ShapeOption", "SourceOption", "VariantOption", "screen", "summarise",
]  # fmt: skip

screen = Console(stderr=True, highlight=False)
"""Progress and remarks; results go to standard output."""

PresetOption = Annotated[str, typer.Option("--preset", help=f"Accelerator: {', '.join(PRESETS)}.")]
DeviceOption = Annotated[str, typer.Option(help="Where to run: `sim` (the simulated RTL) or `golden` (its model).")]
ModelOption = Annotated[str, typer.Option(help="A built-in network, or `file.py:function`; see `adagp train --help`.")]
ShapeOption = Annotated[str, typer.Option(help="Images: CHANNELS,HEIGHT,WIDTH.")]
ClassesOption = Annotated[int, typer.Option(help="Classes of the model.", min=2)]
BatchOption = Annotated[int, typer.Option(help="Images per batch.", min=1)]
VariantOption = Annotated[
    str,
    typer.Option(
        help=f"Design: {', '.join(VARIANTS)}. All but the first predict gradients, with the predictor's weights in"
        " DRAM, on chip, and on chip with an array of its own."
    ),
]
SourceOption = Annotated[
    str,
    typer.Option(
        "--gradient-source",
        help=f"Of GP batches, which aren't backpropagated: {', '.join(SOURCES)}. `random`: predicted, with random"
        " signs; `last`, `mean`: of earlier true gradients; `zero`: only momentum and decay; `skip`: no GP batches.",
    ),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the result to a JSON file.")]
RunArgument = Annotated[Path, typer.Argument(help="A run's folder, as `adagp train` made it.")]


def summarise(summary: dict, path: Path | None) -> None:
    """Write a command's summary where ``--json`` says."""
    if path is not None:
        write_atomically(path, (json.dumps(summary, indent=1) + "\n").encode())
