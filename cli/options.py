"""Options that several commands share, and summaries in JSON."""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..gen.files import write_atomically
from ..host.compiler.dataflow import DATAFLOWS, MODELLED
from ..host.console import screen, writable
from ..host.training.settings import VARIANTS, SettingsError
from ..spec.config import SWITCHES
from ..spec.presets import PRESETS
from ..spec.schedule import SOURCES

if TYPE_CHECKING:
    from ..host.compiler.compiler import Compiled
    from ..host.compiler.costs import Share
    from ..host.devices.board import Port

__all__ = [
    "NO_LINE", "DataflowOption", "DeviceOption", "EstimatedDataflowOption", "JsonOption", "LineOptions",
    "MicroBatchesOption", "PresetOption", "RunArgument", "SavingOptions", "SourceOption", "StrictOption",
    "SwitchesOption", "VariantOption", "is_given", "refuse_host", "shown", "summarise", "told", "transfer_shown",
    "written_file",
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
MicroBatchesOption = Annotated[
    int,
    typer.Option(
        "--micro-batches",
        help="Parts of a batch, each of which passes forward and backward alone, so that memory needs room for one:"
        " their gradients are summed up before the update.",
    ),
]
VariantOption = Annotated[
    str,
    typer.Option(
        help=f"Design: {', '.join(VARIANTS)}. All but the first predict gradients, with the predictor's weights in"
        " DRAM, on chip, and on chip with an array of its own."
    ),
]
SwitchesOption = Annotated[
    str,
    typer.Option(
        "--switches",
        help=f"Hardware that a preset leaves out, for further operators: {', '.join(SWITCHES)}, several with commas"
        " between them, or `all`.",
    ),
]
_DATAFLOWS = (
    f"What stays in the array: {', '.join(DATAFLOWS)}. `ws`: weights, in weight gradients the errors;"
    " `is`: activations, in the backward pass of data the errors; `free`: for each command the faster one; `os`:"
    " sums, in an array of its own. Results are the same."
)
DataflowOption = Annotated[str, typer.Option(help=_DATAFLOWS)]
EstimatedDataflowOption = Annotated[
    str,
    typer.Option(
        help=f"{_DATAFLOWS} Also {', '.join(MODELLED)}, row-stationary: a model without hardware, on the tiles of"
        " `free`."
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


def is_given(context: typer.Context, name: str) -> bool:
    """True if a parameter comes from the command line, even with its default's value."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


@dataclass(frozen=True)
class SavingOptions:
    """Options that spare traffic of predictions, off by default."""

    predictor_every: Annotated[
        int,
        typer.Option(
            help="The predictor learns in the first of so many batches with true gradients; the others are plain, and"
            " move fewer bytes."
        ),
    ] = 1
    gp_momentum: Annotated[
        str,
        typer.Option(
            help="Momentum in GP batches: `update`, or `keep`: their step is without it, and neither reads nor writes"
            " it."
        ),
    ] = "update"
    predictions: Annotated[
        str,
        typer.Option(
            help="Their way to the update: `spill`, through memory, or with variant max `stream`: through the predictor"
            " memory. Results are the same."
        ),
    ] = "spill"


def written_file(path: Path, option: str) -> Path:
    """An option's file to be written; what can't be is said before the work, not after it, by SettingsError."""
    try:
        return writable(str(path))
    except argparse.ArgumentTypeError as error:
        raise SettingsError(f"{option}: {error}") from None


def _json_file(path: Path | None) -> Path | None:
    return None if path is None else written_file(path, "--json")


JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Also write the result to a JSON file.", callback=_json_file)
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Refuse a network of which a part would run on the host.")]
RunArgument = Annotated[Path, typer.Argument(help="A run's folder, as `adagp train` made it.")]


def refuse_host(share: "Share") -> None:
    """Raise SettingsError if a part of a network runs on the host."""
    if share.host_operators:
        from ..host.compiler.costs import hosted

        raise SettingsError(
            f"--strict: {hosted(share.host_operators)} would run on the host; `adagp compile` without --strict says why"
        )


def told(compiled: "Compiled") -> str:
    """A line about what GP batches leave as it is, beside biases; empty if there is none."""
    from ..host.compiler.reasons import by_reason

    kept = "trained with true gradients in BP batches alone, and unchanged by GP batches, as biases are"
    return f"{kept}: {'; '.join(by_reason(compiled.unpredicted))}" if compiled.unpredicted else ""


def shown(number: float) -> str:
    """A number with four decimals, or a huge one with four digits."""
    return f"{number:.4f}" if abs(number) < 1e6 else f"{number:.4g}"


def summarise(summary: dict, path: Path | None) -> None:
    """Write a command's summary where ``--json`` says."""
    if path is not None:
        write_atomically(path, (json.dumps(summary, indent=1) + "\n").encode())


@dataclass(frozen=True)
class LineOptions:
    """The serial line to a board."""

    port: Annotated[
        str | None, typer.Option(help="Device `board`: its serial port, /dev/ttyUSB1, COM3, socket://HOST:PORT, ...")
    ] = None
    baud: Annotated[
        int | None, typer.Option(help="Device `board`: rate of the line, as its bitstream has it; default: 3000000.")
    ] = None
    patience: Annotated[
        float | None,
        typer.Option(
            help="Device `board`: seconds without an answer before a request is repeated; default: 0.25. A simulated"
            " board, or a line through a network, may need more."
        ),
    ] = None

    def port_of(self, device: str) -> "Port | None":
        """The line to ``device``, None unless it is a board; raises SettingsError."""
        if device != "board":
            idle = [f"--{name}" for name, value in asdict(self).items() if value is not None]
            if idle:
                raise SettingsError(f"{', '.join(idle)}: of no effect with --device {device}")
            return None
        if self.port is None:
            raise SettingsError("--device board needs --port, its serial port")
        try:
            from ..host.devices.board import PATIENCE, Port
            from ..spec.link import BAUD
        except ImportError as error:
            raise SettingsError(f"--device board needs pyserial: pip install 'adagp[board]' ({error})") from None
        patience = PATIENCE if self.patience is None else self.patience
        return Port(self.port, BAUD if self.baud is None else self.baud, patience)


NO_LINE = LineOptions()


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
