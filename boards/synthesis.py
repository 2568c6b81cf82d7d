"""Yosys, in a process of its own, on a build's folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..synth.yosys import yosys_command, yosys_version
from .board import Board
from .errors import BoardError
from .steps import Steps

__all__ = ["synthesise"]


def synthesise(
    steps: Steps, board: Board, sources: Sequence[Path], script: str, results: Sequence[str]
) -> Mapping[str, int]:
    """Run a Yosys script that makes ``results``, of which one is ``cells.json``; returns the numbers of cells by type.

    Raises BoardError if the device hasn't as many, ToolError if Yosys fails.
    """
    steps.tool(
        "synthesis", [yosys_version(), *sources, steps.folder / script], results, yosys_command(script),
        "synthesis.log",
    )  # fmt: skip
    text = (steps.folder / "cells.json").read_text()
    cells = json.loads(text[text.index("{") :])["design"]["num_cells_by_type"]
    for name, there in board.capacity.items():
        if cells.get(name, 0) > there:
            raise BoardError(f"{board.name}: the design needs {cells[name]} {name}, there are {there}")
    return cells
