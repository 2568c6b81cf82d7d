"""Dead logic: a mutant that lies in logic nobody reads goes when unread cells are removed."""

import re

from pyosys import libyosys as ys

from . import yosys
from .miter import run
from .miter_side import identifier

__all__ = ["unread"]


def unread(path: str, scope: str, command: str, folder: str) -> bool:
    """True if an inverter at the mutant's place goes when all of ``scope`` is taken apart, bit by bit, and cleaned."""
    place = re.sub(r"-mode \S+", "-mode inv", re.sub(r" -ctrlbit \d+", "", command))
    with open(f"{folder}/gate.v", "w") as gate:
        gate.write(yosys.GATE)
    design = ys.Design()
    run(
        design, f"read_verilog {folder}/gate.v", f"read_rtlil {path}", f"mutate {place}", f"hierarchy -top {scope}",
        "flatten", "splitcells", "splitnets", "opt_clean -purge", "splitcells", "splitnets", "opt_clean -purge",
    )  # fmt: skip
    return not any("mutate" in cell.name.str() for cell in design.module(identifier(scope)).cells_.values())
