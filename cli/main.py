"""The command line: ``adagp``."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from ..host.console import screen
from .board import boards
from .compile import compile_network
from .diff import diff
from .disasm import disasm
from .estimate import estimate
from .evaluate import evaluate
from .experiment import experiment
from .generate import generate
from .info import info
from .pipeline import pipeline
from .report import report
from .synth import synth
from .train import train

__all__ = ["app", "main"]

app = typer.Typer(
    name="adagp", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)  # fmt: skip
COMMANDS: dict[str, tuple[Any, ...]] = {
    "Train a network": (train, evaluate, report),
    "Make the hardware": (generate, synth, boards),
    "Look inside": (compile_network, estimate, disasm, diff, info),
    "Compare methods of training, in PyTorch": (experiment,),
    "Plan several accelerators": (pipeline,),
}
"""The commands by what people want."""
NAMES = {compile_network: "compile"}
"""Names of commands that aren't their functions'."""

for panel, commands in COMMANDS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(NAMES.get(command), rich_help_panel=panel)(command)


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    from .. import __version__
    from ..gen.provenance import commit

    known = commit()
    print(f"adagp {__version__}" + ("" if known == "unknown" else f" (commit {known})"))
    raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version, in a checkout with its commit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Generate, simulate and train on the adagp DNN training accelerator. Start with: `adagp train`"""


def _complain(kind: str, message: str) -> None:
    line = Text.assemble((f"{kind}: ", "bold red"), " ".join(message.split()))
    screen.print(line, soft_wrap=True)


def _is_ours(error: Exception) -> bool:
    """Tell whether an exception's class is the project's own, and its message so written for the user."""
    return type(error).__module__.startswith(__name__.partition(".")[0] + ".")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 2 and one line for a mistake of the user's, 1 for a failing device or tool."""
    try:
        app(arguments, prog_name="adagp")
    except OSError as error:
        _complain("error", f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(2)
    except ValueError as error:
        if not _is_ours(error):
            raise
        _complain("error", str(error))
        sys.exit(2)
    except RuntimeError as error:
        if not _is_ours(error):
            raise
        _complain("failed", str(error))
        sys.exit(1)
