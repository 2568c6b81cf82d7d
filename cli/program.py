"""Commands about programs: disasm, diff."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..host.console import screen
from ..host.program import disassemble
from ..host.training.settings import SettingsError, TrainSettings
from ..spec.commands import COMMAND_BYTES
from .options import (
    BatchOption,
    BaudOption,
    ClassesOption,
    JsonOption,
    ModelOption,
    PatienceOption,
    PortOption,
    PresetOption,
    ShapeOption,
    SourceOption,
    VariantOption,
    board_port,
    summarise,
)

if TYPE_CHECKING:
    from ..host.training.network import Network

__all__ = ["diff", "disasm"]


def _shape(text: str) -> tuple[int, int, int]:
    try:
        c, h, w = (int(part) for part in text.split(","))
    except ValueError:
        c = h = w = 0
    if min(c, h, w) < 1:
        raise SettingsError(f"shape = {text!r} must be CHANNELS,HEIGHT,WIDTH, e.g. 3,32,32")
    return c, h, w


def _network(settings: TrainSettings, shape: str, classes: int) -> tuple["Network", dict]:
    """A network of that description, and the weights it starts from."""
    config, image = settings.config, _shape(shape)
    from ..host.training.models import build_model  # here, because torch takes seconds to import
    from ..host.training.network import Network

    module = build_model(settings.model, image, classes, settings.seed)
    source = settings.gradient_source if settings.predicts else None
    return Network(module, image, settings.batch, config, source=source), module.state_dict()


def disasm(
    program: Annotated[Path | None, typer.Argument(help="A program's bytes; else --model is compiled.")] = None,
    model: ModelOption = "digits-cnn",
    shape: ShapeOption = "1,8,8",
    classes: ClassesOption = 10,
    batch: BatchOption = 32,
    preset_name: PresetOption = "ecp5",
    variant: VariantOption = "baseline",
    gradient_source: SourceOption = "predicted",
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
        settings = TrainSettings(
            model=model, batch=batch, preset=preset_name, variant=variant, gradient_source=gradient_source
        )
        network, _ = _network(settings, shape, classes)
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
    variant: VariantOption = "baseline",
    gradient_source: SourceOption = "predicted",
    devices: Annotated[str, typer.Option(help="Two devices, the reference first.")] = "golden,sim",
    port: PortOption = None,
    baud: BaudOption = None,
    patience: PatienceOption = None,
    seed: Annotated[int, typer.Option(help="Decides weights, inputs and labels.", min=0)] = 0,
    json_path: JsonOption = None,
) -> None:
    """Run training batches on two devices and name the first command and element that differ (exit code 1).

    Designs that predict gradients run a batch of each phase.

    Example: `adagp diff --model lenet --shape 1,28,28 --batch 4`

    Example: `adagp diff --devices golden,board --port /dev/ttyUSB1`
    """
    from ..host.training.session import DEVICES, open_device  # here, because torch takes seconds to import

    names = [name.strip() for name in devices.split(",")]
    if len(names) != 2 or not set(names) <= set(DEVICES):
        raise SettingsError(f"devices = {devices!r} must name two of {', '.join(DEVICES)}, e.g. golden,sim")
    settings = TrainSettings(
        model=model, batch=batch, preset=preset_name, variant=variant, gradient_source=gradient_source, seed=seed
    )
    line = board_port("board" if "board" in names else names[1], port, baud, patience)
    network, state = _network(settings, shape, classes)
    from ..host.training.diff import compare

    def opened(name):
        return closing(open_device(name, network.config, **({"port": line} if name == "board" else {})))

    with (
        opened(names[0]) as reference,
        opened(names[1]) as other,
        screen.status(f"running {len(network.program)} commands on {names[0]} and {names[1]}"),
    ):
        difference = compare(network, reference, other, state, seed)
    summarise({"equal": difference is None, "difference": vars(difference) if difference else None}, json_path)
    if difference is not None:
        print(difference)
        raise typer.Exit(1)
    print(f"{names[0]} and {names[1]} agree on every element of {len(network.program)} commands")
