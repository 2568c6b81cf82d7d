"""Commands about programs: disasm, diff."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..spec.commands import COMMAND_BYTES
from ..spec.presets import preset
from .assembler import disassemble
from .cli_options import (
    BatchOption,
    ClassesOption,
    JsonOption,
    ModelOption,
    PresetOption,
    ShapeOption,
    screen,
    summarise,
)
from .settings import SettingsError

if TYPE_CHECKING:
    from .network import Network

__all__ = ["diff", "disasm"]


def _shape(text: str) -> tuple[int, int, int]:
    try:
        c, h, w = (int(part) for part in text.split(","))
    except ValueError:
        c = h = w = 0
    if min(c, h, w) < 1:
        raise SettingsError(f"shape = {text!r} must be CHANNELS,HEIGHT,WIDTH, e.g. 3,32,32")
    return c, h, w


def _network(
    model: str, shape: str, classes: int, batch: int, preset_name: str, seed: int = 0
) -> tuple["Network", dict]:
    """A network of that description, and the weights it starts from."""
    config, image = preset(preset_name), _shape(shape)
    from .models import build_model  # here, because torch takes seconds to import
    from .network import Network

    module = build_model(model, image, classes, seed)
    return Network(module, image, batch, config), module.state_dict()


def disasm(
    program: Annotated[Path | None, typer.Argument(help="A program's bytes; else --model is compiled.")] = None,
    model: ModelOption = "digits-cnn",
    shape: ShapeOption = "1,8,8",
    classes: ClassesOption = 10,
    batch: BatchOption = 32,
    preset_name: PresetOption = "ecp5",
    binary: Annotated[Path | None, typer.Option(help="Also write the program's bytes here.")] = None,
    json_path: JsonOption = None,
) -> None:
    """Show a program, one command a line: the one in a file, or that of a network.

    Example: `adagp disasm --model vgg13 --shape 3,32,32 --preset paper`
    """
    names: list[str] = []
    if program is not None:
        data = program.read_bytes()
        if len(data) % COMMAND_BYTES:
            raise SettingsError(f"{program} has {len(data)} bytes, which is no multiple of {COMMAND_BYTES}")
    else:
        network, _ = _network(model, shape, classes, batch, preset_name)
        data, names = network.program.bytes(), network.program.names()
    try:
        text = disassemble(data, names)
    except ValueError as error:
        raise SettingsError(f"not a program: {error}") from None
    print(text)
    if binary is not None:
        binary.write_bytes(data)
    summarise({"commands": len(data) // COMMAND_BYTES, "listing": text.splitlines()}, json_path)


def diff(
    model: ModelOption = "digits-cnn",
    shape: ShapeOption = "1,8,8",
    classes: ClassesOption = 10,
    batch: BatchOption = 8,
    preset_name: PresetOption = "tiny",
    devices: Annotated[str, typer.Option(help="Two devices, the reference first.")] = "golden,sim",
    seed: Annotated[int, typer.Option(help="Decides weights, inputs and labels.", min=0)] = 0,
    json_path: JsonOption = None,
) -> None:
    """Run one training batch on two devices and name the first command and element that differ (exit code 1).

    Example: `adagp diff --model lenet --shape 1,28,28 --batch 4`
    """
    from .session import DEVICES, open_device  # here, because torch takes seconds to import

    names = [name.strip() for name in devices.split(",")]
    if len(names) != 2 or not set(names) <= set(DEVICES):
        raise SettingsError(f"devices = {devices!r} must name two of {', '.join(DEVICES)}, e.g. golden,sim")
    network, state = _network(model, shape, classes, batch, preset_name, seed)
    from .diff import compare

    with (
        closing(open_device(names[0], network.config)) as reference,
        closing(open_device(names[1], network.config)) as other,
        screen.status(f"running {len(network.program)} commands on {names[0]} and {names[1]}"),
    ):
        difference = compare(network, reference, other, state, seed)
    summarise({"equal": difference is None, "difference": vars(difference) if difference else None}, json_path)
    if difference is not None:
        print(difference)
        raise typer.Exit(1)
    print(f"{names[0]} and {names[1]} agree on every element of {len(network.program)} commands")
