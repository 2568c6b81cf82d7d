"""What the commands of the command line share: options, the screen, summaries in JSON."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..gen.files import write_atomically
from ..host.console import screen, writable
from ..host.training.settings import VARIANTS, SettingsError
from ..spec.presets import PRESETS
from ..spec.schedule import SOURCES

if TYPE_CHECKING:
    from ..host.devices.board import Port

__all__ = [
    "BatchOption", "BaudOption", "ClassesOption", "DeviceOption", "JsonOption", "ModelOption", "PatienceOption",
    "PortOption", "PresetOption", "RunArgument", "ShapeOption", "SourceOption", "VariantOption", "board_port",
    "summarise", "transfer_shown",
]  # fmt: skip


LONG_TRANSFER = 64 << 10
"""Bytes from which a transfer to a board is shown."""

PresetOption = Annotated[str, typer.Option("--preset", help=f"Accelerator: {', '.join(PRESETS)}.")]
DeviceOption = Annotated[
    str,
    typer.Option(
        help="Where to run: `sim` (the simulated RTL), `golden` (its model), or `board` (hardware at `--port`)."
    ),
]
PortOption = Annotated[
    str | None, typer.Option(help="Device `board`: its serial port, /dev/ttyUSB1, COM3, socket://HOST:PORT, ...")
]
BaudOption = Annotated[
    int | None, typer.Option(help="Device `board`: rate of the line, as its bitstream has it; default: 3000000.")
]
PatienceOption = Annotated[
    float | None,
    typer.Option(
        help="Device `board`: seconds without an answer before something is asked again; default: 0.25. A simulated"
        " board, or a line through a network, may need more."
    ),
]
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


def _json_file(path: Path | None) -> Path | None:
    """Says what can't be written before the work, not after it."""
    try:
        return None if path is None else writable(str(path))
    except argparse.ArgumentTypeError as error:
        raise SettingsError(f"--json: {error}") from None


JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Also write the result to a JSON file.", callback=_json_file)
]
RunArgument = Annotated[Path, typer.Argument(help="A run's folder, as `adagp train` made it.")]


def summarise(summary: dict, path: Path | None) -> None:
    """Write a command's summary where ``--json`` says."""
    if path is not None:
        write_atomically(path, (json.dumps(summary, indent=1) + "\n").encode())


def board_port(device: str, path: str | None, baud: int | None, patience: float | None) -> "Port | None":
    """What the options about the line say, None for a device without one; raises SettingsError."""
    given = {"--port": path, "--baud": baud, "--patience": patience}
    if device != "board":
        idle = [name for name, value in given.items() if value is not None]
        if idle:
            raise SettingsError(f"{', '.join(idle)}: of no effect with --device {device}")
        return None
    if path is None:
        raise SettingsError("--device board needs --port, its serial port")
    try:
        from ..host.devices.board import PATIENCE, Port
        from ..spec.link import BAUD
    except ImportError as error:
        raise SettingsError(f"--device board needs pyserial: pip install 'adagp[board]' ({error})") from None
    return Port(path, BAUD if baud is None else baud, PATIENCE if patience is None else patience)


def transfer_shown() -> Callable[[int, int], None]:
    """Shows on the screen how far a long transfer has come; call it with bytes done and to do."""
    status = screen.status("")

    def show(done: int, total: int) -> None:
        if total < LONG_TRANSFER:
            return
        status.update(f"over the link: {done:,} of {total:,} bytes")
        status.start()
        if done >= total:
            status.stop()

    return show
