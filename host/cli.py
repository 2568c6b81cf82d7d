"""The command line: ``adagp``."""

import json
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table

from ..spec.config import ConfigError
from ..spec.layout import FieldError
from ..spec.presets import PRESETS, preset

__all__ = ["main"]

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="markdown",
    help="Generate, simulate and train on the adagp DNN training accelerator.",
)  # fmt: skip
screen = Console(stderr=True)

PresetOption = Annotated[str, typer.Option(help=f"Accelerator: {', '.join(PRESETS)}.")]
DeviceOption = Annotated[str, typer.Option(help="Where to run: `sim` (the simulated RTL) or `golden` (the model of it).")]
JsonOption = Annotated[Optional[Path], typer.Option(help="Also write this command's summary to a JSON file.")]
RunArgument = Annotated[Path, typer.Argument(help="A run's folder, as `adagp train` made it.")]


def summarise(summary: dict, path: Path | None) -> None:
    """Write a command's summary where ``--json`` says."""
    if path is not None:
        from .run_folder import write_atomically

        write_atomically(path, (json.dumps(summary, indent=1) + "\n").encode())


@app.command()
def generate(
    preset_name: Annotated[str, typer.Option("--preset", help=f"Accelerator: {', '.join(PRESETS)}.")] = "ecp5",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files.")] = Path("build"),
    json_path: Annotated[Optional[Path], typer.Option("--json", help="Write a summary to a JSON file.")] = None,
) -> None:
    """Write the accelerator as Verilog (`top.v`), its description (`top.json`) and a C header (`adagp.h`)."""
    from ..gen import generate as write_files

    config = preset(preset_name)
    with screen.status(f"generating {preset_name} ({config.rows}x{config.cols} PEs)"):
        paths = write_files(config, output)
    for path in paths:
        print(path)
    summarise({"preset": preset_name, "config_hash": config.config_hash, "files": [str(p) for p in paths]}, json_path)


@app.command()
def info(
    preset_name: Annotated[Optional[str], typer.Option("--preset", help="Show this accelerator only.")] = None,
    json_path: Annotated[Optional[Path], typer.Option("--json", help="Write the same to a JSON file.")] = None,
) -> None:
    """Show the presets: array, scratchpads, port, memory part."""
    configs = [preset(preset_name)] if preset_name else list(PRESETS.values())
    table = Table(title="accelerators")
    rows = {
        "PEs": lambda c: f"{c.rows} x {c.cols} = {c.n_pes}",
        "clock": lambda c: f"{c.clock_hz / 1e6:g} MHz",
        "peak": lambda c: f"{2 * c.n_pes * c.clock_hz / 1e9:g} GOPS",
        "operand / accumulator": lambda c: f"{c.operand_width} / {c.acc_width} bits",
        "scratchpads A, B, C": lambda c: " + ".join(f"2x{e * c.operand_bytes // 1024} KiB" for e in (c.a_elements, c.b_elements, c.c_elements)),
        "accumulator": lambda c: f"2x{c.acc_depth * c.cols * c.acc_width // 8192} KiB",
        "memory port": lambda c: f"{c.port_width} bits, {c.beat_bytes * c.clock_hz / 1e9:g} GB/s",
        "memory part": lambda c: f"{c.dram.name}, {c.dram.bandwidth_bytes / 1e9:g} GB/s, {c.dram.capacity_bytes >> 20} MiB",
        "config hash": lambda c: f"{c.config_hash:08x}",
    }  # fmt: skip
    table.add_column("")
    for config in configs:
        table.add_column(config.name)
    for label, show in rows.items():
        table.add_row(label, *(show(config) for config in configs))
    Console().print(table)
    summarise({config.name: {**config.to_dict(), "config_hash": config.config_hash} for config in configs}, json_path)


def main() -> None:
    """Run the command line; a mistake of the user's gets one line and exit code 2."""
    from . import cli_program, cli_train  # noqa: F401  (they add their commands to the app)
    from .assembler import AssemblerError
    from .data import DataError
    from .device import DeviceError
    from .lowering import LoweringError
    from .mapping import MappingError
    from .memory_plan import PlanError
    from .models import ModelError
    from .run_folder import RunError
    from .settings import SettingsError

    mistakes = (
        AssemblerError, ConfigError, DataError, FieldError, LoweringError, MappingError, ModelError, PlanError,
        RunError, SettingsError,
    )  # fmt: skip
    try:
        app(standalone_mode=True)
    except mistakes as error:
        screen.print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except DeviceError as error:
        screen.print(f"[bold red]device error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        screen.print("interrupted; the same command goes on from the last checkpoint", highlight=False)
        sys.exit(130)
