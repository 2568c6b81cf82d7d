"""Commands about programs: disasm, diff."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from ..spec.commands import COMMAND_BYTES
from ..spec.presets import PRESETS, preset
from .assembler import disassemble
from .cli import app, screen, summarise
from .diff import compare
from .models import build_model
from .network import Network
from .session import open_device
from .settings import SettingsError

__all__: list[str] = []


def _shape(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise SettingsError(f"shape = {text!r} must be CHANNELS,HEIGHT,WIDTH, e.g. 3,32,32")
    c, h, w = (int(part) for part in parts)
    return c, h, w


ModelOption = Annotated[str, typer.Option(help="A built-in network, or `file.py:function`.")]
ShapeOption = Annotated[str, typer.Option(help="Images: CHANNELS,HEIGHT,WIDTH.")]
BatchOption = Annotated[int, typer.Option(help="Images per batch.", min=1)]
PresetOption = Annotated[str, typer.Option("--preset", help=f"One of {', '.join(PRESETS)}.")]
JsonOption = Annotated[Optional[Path], typer.Option("--json", help="Also write the summary to a JSON file.")]


@app.command()
def disasm(
    program: Annotated[Optional[Path], typer.Argument(help="A program's bytes; without it, --model is compiled.")] = None,
    model: ModelOption = "digits-cnn",
    shape: ShapeOption = "1,8,8",
    classes: Annotated[int, typer.Option(help="Classes of the model.", min=2)] = 10,
    batch: BatchOption = 32,
    preset_name: PresetOption = "ecp5",
    binary: Annotated[Optional[Path], typer.Option(help="Also write the program's bytes here.")] = None,
    json_path: JsonOption = None,
) -> None:
    """Show a program, one command a line: the one in a file, or that of a network."""
    if program is not None:
        if not program.is_file():
            raise SettingsError(f"no file {program}")
        data, names = program.read_bytes(), []
        if len(data) % COMMAND_BYTES:
            raise SettingsError(f"{program} has {len(data)} bytes, which is no multiple of {COMMAND_BYTES}")
    else:
        network = Network(build_model(model, _shape(shape), classes, 0), _shape(shape), batch, preset(preset_name))
        data, names = network.program.bytes(), network.program.names()
    try:
        text = disassemble(data, names)
    except ValueError as error:
        raise SettingsError(f"not a program: {error}") from None
    print(text)
    if binary is not None:
        binary.write_bytes(data)
    summarise({"commands": len(data) // COMMAND_BYTES, "listing": text.splitlines()}, json_path)


@app.command()
def diff(
    model: ModelOption = "digits-cnn",
    shape: ShapeOption = "1,8,8",
    classes: Annotated[int, typer.Option(help="Classes of the model.", min=2)] = 10,
    batch: BatchOption = 8,
    preset_name: PresetOption = "tiny",
    devices: Annotated[str, typer.Option(help="Two devices, the reference first.")] = "golden,sim",
    seed: Annotated[int, typer.Option(help="Decides weights, inputs and labels.")] = 0,
    json_path: JsonOption = None,
) -> None:
    """Run one training batch on two devices and name the first command and element that differ (exit code 1)."""
    names = devices.split(",")
    if len(names) != 2:
        raise SettingsError(f"devices = {devices!r} must name two, e.g. golden,sim")
    module = build_model(model, _shape(shape), classes, seed)
    network = Network(module, _shape(shape), batch, preset(preset_name))
    reference, other = (open_device(name.strip(), network.config) for name in names)
    try:
        with screen.status(f"running {len(network.program)} commands on {names[0]} and {names[1]}"):
            difference = compare(network, reference, other, module.state_dict(), seed)
    finally:
        reference.close()
        other.close()
    summarise({"equal": difference is None, "difference": vars(difference) if difference else None}, json_path)
    if difference is None:
        print(f"{names[0]} and {names[1]} agree on every element of {len(network.program)} commands")
        return
    print(difference)
    raise typer.Exit(1)
