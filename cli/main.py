"""The command line: ``adagp``."""

import sys
from collections.abc import Sequence

import typer
from rich.text import Text

from ..host.console import screen
from .board import boards
from .experiment import experiment
from .machine import generate, info
from .program import diff, disasm
from .runs import evaluate, report
from .synth import synth
from .train import train

__all__ = ["app", "main"]

app = typer.Typer(
    name="adagp", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Generate, simulate and train on the adagp DNN training accelerator. Start with: `adagp train`",
)  # fmt: skip
for command in (train, evaluate, report, generate, info, synth, disasm, diff, experiment):
    app.command()(command)
app.add_typer(boards, name="board")


def _complain(kind: str, message: str) -> None:
    line = Text.assemble((f"{kind}: ", "bold red"), " ".join(message.split()))
    screen.print(line, soft_wrap=True)


def _is_ours(error: Exception) -> bool:
    """Whether an exception's class is the project's own: its message then is for the user to read."""
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
