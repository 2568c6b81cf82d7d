"""``adagp board``: build for FPGA boards and start their memories."""

import json
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table

from ..host.console import LARGEST_SEED, resumable, screen
from ..host.training.settings import SettingsError
from ..spec.link import BAUD
from ..spec.presets import preset
from .option_groups import grouped
from .options import NO_LINE, JsonOption, LineOptions, PresetOption, VariantOption, summarise

__all__ = ["boards"]

SLOWEST = 1200
"""The lowest rate of the serial line, which every host's serial port supports."""

boards = typer.Typer(
    name="board", no_args_is_help=True, rich_markup_mode="markdown",
    help="Build for FPGA boards and start them. Begin with: `adagp board build ecpix5 --preset tiny -o build/ecpix5`",
)  # fmt: skip


@boards.command("list")
def list_boards() -> None:
    """List the boards.

    Example: `adagp board list`
    """
    from ..boards.build import BOARDS, find_board

    titles = ("board", "what", "device", "memory", "clock, MHz", "result")
    table = Table(*(Column(title, overflow="fold") for title in titles))
    for board in map(find_board, BOARDS):
        slowest, fastest = (f"{hz / 1e6:g}" for hz in board.clocks)
        result = "bitstream" if board.flow == "ecp5" else "Vivado project"
        memory = f"{board.memory.part}, x{8 * board.memory.lanes}, {2 * board.memory.rate} transfers a clock"
        table.add_row(board.name, board.title, board.memory.device, memory, f"{slowest} to {fastest}", result)
    Console().print(table)


@boards.command()
def build(
    name: Annotated[str, typer.Argument(metavar="BOARD", help="See `adagp board list`.")],
    preset_name: PresetOption = "tiny",
    variant: VariantOption = "baseline",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files.")] = Path("build/board"),
    clock_mhz: Annotated[
        float | None, typer.Option(help="Clock of the accelerator; default: the preset's, if the board can make it.")
    ] = None,
    baud: Annotated[int, typer.Option(help="Rate of the serial line to the host.", min=SLOWEST)] = BAUD,
    seed: Annotated[
        int, typer.Option(help="Seed of the placer; another may give a faster clock.", min=1, max=LARGEST_SEED)
    ] = 1,
    ignore_timing: Annotated[
        bool, typer.Option("--ignore-timing", help="Make a bitstream even of a design that is too slow for its clock.")
    ] = False,
    json_path: JsonOption = None,
) -> None:
    """Build a bitstream (`top.bit`), or the vendor's project for a board that open tools don't support.

    A killed build continues when the same command is given again; a step is repeated only if its inputs have changed.
    See docs/boards.md.

    Example: `adagp board build ecpix5 --preset tiny -o build/ecpix5`
    """
    from dataclasses import replace

    from ..boards.build import build as build_board
    from ..boards.build import find_board
    from ..rtl.link.uart import phase_step
    from ..synth.parallel import ended_by_signals

    if clock_mhz is not None and not isfinite(clock_mhz):
        raise SettingsError(f"clock_mhz = {clock_mhz} must be a finite number")
    board = find_board(name)
    config = replace(preset(preset_name), variant=variant)
    config = board.configure(config, None if clock_mhz is None else round(clock_mhz * 1e6))
    if board.flow == "vivado" and (seed != 1 or ignore_timing):
        raise SettingsError(f"--seed and --ignore-timing are for place and route, which isn't done here for {name}")
    try:
        phase_step(baud, config.clock_hz)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    screen.print(f"{board.title}: {preset_name}, {variant}, {config.clock_hz / 1e6:g} MHz")
    with resumable(), ended_by_signals():
        report = build_board(board, config, output, baud=baud, seed=seed, ignore_timing=ignore_timing)
    _show(report)
    print(output / "board.json")
    summarise(report, json_path)


@boards.command()
@grouped
def start(
    folder: Annotated[Path, typer.Argument(help="Folder that `adagp board build` wrote.")],
    line: LineOptions = NO_LINE,
    json_path: JsonOption = None,
) -> None:
    """Start a board's memory, once after power-up: initialise it, calibrate each byte lane, test it.

    Load the bitstream first. The memory's content is lost. Then run `adagp train --device board --port ...`

    Example: `adagp board start build/ecpix5 --port /dev/ttyUSB1`
    """
    from dataclasses import asdict

    from ..boards.memory.controller import DramController

    port = line.port_of("board")
    if not (folder / "dram.json").exists():
        raise SettingsError(f"there is no board in {folder}: `adagp board build` makes one")
    controller = DramController.load(folder / "dram.json")
    made = _config_hash(folder / "accelerator.json")
    from ..boards.memory.bring_up import start_memory

    assert port is not None
    with Progress(*Progress.get_default_columns(), console=screen, transient=True) as progress:
        task = progress.add_task("calibration", total=1.0)
        eyes, compared = start_memory(port, controller, made, lambda share: progress.update(task, completed=share))
    table = Table("pins", "bitslip", "delays that work", "delay", title=f"{controller.memory_bytes >> 20} MiB started")
    for eye in eyes:
        table.add_row(controller.pins(eye.lane), str(eye.bitslip), f"{eye.first} to {eye.last}", str(eye.delay))
    Console().print(table)
    print(f"memory test: {compared:,} bytes compared, all as written")
    summarise({"eyes": [asdict(eye) | {"delay": eye.delay} for eye in eyes], "bytes_compared": compared}, json_path)


def _config_hash(path):
    """Read the hash of the configuration that a folder's bitstream was made from."""
    from ..boards.errors import BoardError

    try:
        return int(json.loads(path.read_text())["config_hash"])
    except (ValueError, TypeError, KeyError) as error:
        raise BoardError(f"{path} isn't the description of an accelerator: {error}") from None


def _show(report):
    table = Table("", "", title=report["title"])
    for name, counts in {**report["resources"], **report.get("places", {})}.items():
        table.add_row(name, f"{counts['used']:,} of {counts['available']:,}")
    for name, mhz in report.get("clocks_mhz", {}).items():
        table.add_row(f"clock {name}", f"{mhz['reached']:.1f} MHz of {mhz['needed']:.1f} MHz needed")
    if not report.get("placed", True):
        for name, count in sorted(report["cells"].items(), key=lambda cell: -cell[1])[:12]:
            table.add_row(name, str(count))
        table.add_row("not placed: no open tool used", f"next: {report['next']}")
    Console().print(table)
