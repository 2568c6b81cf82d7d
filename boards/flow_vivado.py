"""A project for Vivado, which is no open tool and isn't run; Yosys synthesises the same sources, to count cells."""

from pathlib import Path

from .board import Board
from .steps import Steps
from .synthesis import synthesise

__all__ = ["OVERRIDES", "build"]

OVERRIDES = {"script_after_read": "read_xdc litedram_core.xdc"}

SCRIPT = "cells.ys"


def build(steps: Steps, board: Board, sources: list[Path], seed: int, ignore_timing: bool) -> dict:
    """Count cells; returns the report. Raises FitError for what doesn't fit the device, ToolError."""
    lines = [f"read_verilog {source.name}" for source in sources if source.suffix == ".v"]
    text = "\n".join([*lines, "synth_xilinx -family xc7 -flatten -top top", "tee -q -o cells.json stat -json", ""])
    script = steps.folder / SCRIPT
    if not script.exists() or script.read_text() != text:
        script.write_text(text)
    cells = synthesise(steps, board, sources, SCRIPT, ["cells.json"])
    next_step = f"cd {steps.folder} && vivado -mode batch -source top.tcl"
    return {"cells": cells, "placed": False, "next": next_step, "tools": {}}
