"""``adagp disasm``: a program, one command a line."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from ..host.program import disassemble
from ..host.training.settings import SettingsError
from ..spec.commands import COMMAND_BYTES
from .network_options import NetworkOptions
from .option_groups import grouped
from .options import JsonOption, is_given, summarise

__all__ = ["disasm"]

DEFAULTS = NetworkOptions()


@grouped
def disasm(
    context: typer.Context,
    program: Annotated[Path | None, typer.Argument(help="A program's bytes; else --model is compiled.")] = None,
    compiled: NetworkOptions = DEFAULTS,
    binary: Annotated[Path | None, typer.Option(help="Also write the program's bytes here.")] = None,
    json_path: JsonOption = None,
) -> None:
    """Show a program, one command a line: the one in a file, or that of a network.

    Example: `adagp disasm --model vgg13 --shape 3,32,32 --preset paper`
    """
    names: list[str] = []
    if program is not None:
        if given := [field.name for field in fields(NetworkOptions) if is_given(context, field.name)]:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise SettingsError(f"{program} is compiled already, and {options} describe a network: give one of them")
        data = program.read_bytes()
        if len(data) % COMMAND_BYTES:
            raise SettingsError(f"{program} has {len(data)} bytes, which is no multiple of {COMMAND_BYTES}")
    else:
        network, _ = compiled.build()
        data, names = network.program.bytes(), network.program.names()
    try:
        text = disassemble(data, names)
    except ValueError as error:
        raise SettingsError(f"not a program: {error}") from None
    print(text)
    if binary is not None:
        binary.write_bytes(data)
    summarise({"commands": len(data) // COMMAND_BYTES, "listing": text.splitlines()}, json_path)
