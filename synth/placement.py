"""Figures from nextpnr's report on a placed and routed design: clock, places in use, late nets, critical path."""

import json
from pathlib import Path

from .netlist import Scopes

__all__ = ["critical_path", "fmax_mhz", "late", "utilisation"]


def _report(folder):
    return json.loads((folder / "report.json").read_text())


def fmax_mhz(folder: Path) -> float:
    """The highest frequency that timing analysis allows."""
    return round(min(clock["achieved"] for clock in _report(folder)["fmax"].values()), 2)


def utilisation(folder: Path) -> dict[str, tuple[int, int]]:
    """Used and available places, by kind."""
    return {name: (found["used"], found["available"]) for name, found in _report(folder)["utilization"].items()}


def late(folder: Path, scopes: Scopes, period_ns: float) -> dict[str, dict]:
    """Blocks whose registers some data reach later than ``period_ns`` after the clock: how many of how many, the worst.

    Counted are inputs of registers and memories, enables and resets too, without the time they need before the clock.
    """
    found: dict[str, dict] = {}
    for net in _report(folder)["detailed_net_timings"]:
        for end in net["endpoints"]:
            if net["event"].startswith("posedge") and end["event"].startswith("posedge"):
                row = found.setdefault(scopes.block(end["cell"]), {"endpoints": 0, "late": 0, "worst_ns": 0.0})
                arrival = _latest(end["delay"])
                row["endpoints"] += 1
                row["late"] += arrival > period_ns
                row["worst_ns"] = max(row["worst_ns"], round(arrival, 2))
    return dict(sorted((item for item in found.items() if item[1]["late"]), key=lambda item: -item[1]["late"]))


def _latest(delay: float | list[float]) -> float:
    """The greater of the two delays that nextpnr reports, or the only one of an older nextpnr."""
    return max(delay) if isinstance(delay, list) else delay


def critical_path(folder: Path, scopes: Scopes) -> list[dict]:
    """The longest path between registers, as the blocks it goes through: cells, logic and routing in ns.

    What a block is given: its own cells' delays (clock to output and setup too), and of the nets that it drives.
    """
    clocked = [
        path["path"] for path in _report(folder)["critical_paths"]
        if path["from"].startswith("posedge") and path["to"].startswith("posedge")
    ]  # fmt: skip
    if not clocked:
        return []
    steps: list[dict] = []
    for piece in max(clocked, key=lambda path: sum(piece["delay"] for piece in path)):
        cell = piece["from"]["cell"]
        inserted = steps and cell.startswith("$nextpnr")  # into a carry chain of the block before it
        block = steps[-1]["block"] if inserted else scopes.block(cell)
        if not steps or steps[-1]["block"] != block:
            steps.append({"block": block, "cells": 0, "logic_ns": 0.0, "routing_ns": 0.0})
        kind = "routing_ns" if piece["type"] == "routing" else "logic_ns"
        steps[-1][kind] = round(steps[-1][kind] + piece["delay"], 3)
        steps[-1]["cells"] += kind == "logic_ns"
    return steps
