"""Yosys, in a process of its own, on a build's folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..synth.yosys import yosys_command, yosys_version
from .board import Board
from .steps import Steps
from .tools import packages

__all__ = ["synthesise"]


def synthesise(
    steps: Steps, board: Board, sources: Sequence[Path], script: str, results: Sequence[str]
) -> Mapping[str, int]:
    """Run a Yosys script that makes ``results``, of which one is ``cells.json``; returns the numbers of cells by type.

    Raises FitError if the device has less than they take, ToolError if Yosys fails.
    """
    steps.tool(
        "synthesis", [yosys_version(), packages(), *sources, steps.folder / script], results, yosys_command(script),
        "synthesis.log", f"Yosys, synthesising {board.name}'s design",
    )  # fmt: skip
    text = (steps.folder / "cells.json").read_text()
    cells = json.loads(text[text.index("{") :])["design"]["num_cells_by_type"]
    board.target.check(f"{board.name}'s design", board.part, cells)
    return cells
