"""Yosys, in a process of its own, on a build's folder."""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .board import Board
from .errors import BoardError, ToolError
from .steps import Steps, call

__all__ = ["synthesise"]

_YOSYS = "import sys; from pyosys import libyosys as ys; ys.run_pass(f'script {sys.argv[1]}', ys.Design())"


def _version():
    try:
        return version("pyosys")
    except PackageNotFoundError:
        raise ToolError("synthesis needs Yosys: pip install pyosys") from None


def synthesise(
    steps: Steps, board: Board, sources: Sequence[Path], script: str, results: Sequence[str]
) -> Mapping[str, int]:
    """Run a Yosys script that makes ``results``, of which one is ``cells.json``; returns the numbers of cells by type.

    Raises BoardError if the device hasn't as many, ToolError if Yosys fails.
    """
    command = [sys.executable, "-u", "-c", _YOSYS, script]  # without buffers: an error ends the process at once
    steps.run(
        "synthesis", [_version(), *sources, steps.folder / script], results,
        lambda: call(command, steps.folder, "synthesis.log"),
    )  # fmt: skip
    text = (steps.folder / "cells.json").read_text()
    cells = json.loads(text[text.index("{") :])["design"]["num_cells_by_type"]
    for name, there in board.capacity.items():
        if cells.get(name, 0) > there:
            raise BoardError(f"{board.name}: the design needs {cells[name]} {name}, there are {there}")
    return cells
