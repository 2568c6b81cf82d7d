"""Fixed places on a device for the multipliers of a PE array and the memories of its sums.

Left alone, placers pull an array together until its wires have no room. With the multipliers spread over the whole
device, the rest of each PE follows, and so does the logic that feeds and drains a column. Placers also put the slices
of a wide memory on top of each other, because their wires are nearly the same.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..gen.cache import digest
from .pins import place_pins

__all__ = ["Plan", "Rows", "sites", "write"]

Rows = Sequence[Sequence[str]]
"""A device's places for multipliers or block RAMs: rows from below, each from left to right."""


@dataclass(frozen=True)
class Plan:
    """Places, options and settings for designs that take more than ``share`` of a device's LUTs.

    ``multipliers``: places over which an array's multipliers are spread; ``memories``: rows for its accumulator and for
    its biases; ``options``: of nextpnr's command line; ``settings``: those without an option, which nextpnr reads from
    the netlist.
    """

    share: float
    multipliers: Rows
    memories: Rows
    options: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]

    @property
    def identity(self) -> str:
        """Text that differs between any two plans."""
        return digest(repr(self), Path(__file__).read_bytes())


_PE = re.compile(r"(.*)\.pe_r(\d+)_c(\d+)\.multiplier\.block")
_SUMS = re.compile(r"(.*)\.accumulator\.half(\d)\.memory\.\d+\.(\d+)")
_BIASES = re.compile(r"(.*)\.bias\b[^.]*\.memory\.memory\.\d+\.(\d+)")


def sites(cells: Iterable[str], plan: Plan) -> dict[str, str]:
    """Places for cells of the largest array among ``cells``, by cell; empty where a row is too short."""
    cells = list(cells)
    array, chosen = _multipliers(cells, plan.multipliers)
    core = array.rpartition(".compute.")[0]
    # Above the last PEs of each column: a slice of its sums, above those one of its biases.
    for pattern, block, row in zip((_SUMS, _BIASES), ("compute", "drain"), plan.memories, strict=True):
        found = [match for cell in cells if (match := pattern.fullmatch(cell)) and match[1] == f"{core}.{block}"]
        slices = sorted(found, key=lambda match: [int(number) for number in match.groups()[:0:-1]])
        if len(slices) <= len(row):
            step = len(row) / max(1, len(slices))
            chosen |= {match[0]: row[int((n + 0.5) * step)] for n, match in enumerate(slices)}
    return chosen


def _multipliers(cells: Iterable[str], rows: Rows) -> tuple[str, dict[str, str]]:
    """The name of the largest array and places for its multipliers, by cell; none where a row is too short.

    Each column of PEs gets a strip of the device from bottom to top, its first PEs below.
    """
    arrays: dict[str, dict[tuple[int, int], str]] = {}
    for cell in cells:
        if found := _PE.fullmatch(cell):
            arrays.setdefault(found[1], {})[int(found[2]), int(found[3])] = cell
    if not arrays:
        return "", {}
    name, array = max(arrays.items(), key=lambda item: len(item[1]))
    height, width = (1 + max(place[axis] for place in array) for axis in (0, 1))
    chosen = {}
    for index, row in enumerate(rows):
        # PE rows are dealt out evenly; within a strip they stand side by side.
        mine = [r for r in range(height) if r * len(rows) // height == index]
        wanted = [(r, c) for c in range(width) for r in mine]
        if len(wanted) > len(row):
            return name, {}
        for slot, place in enumerate(wanted):
            chosen[array[place]] = row[slot * len(row) // len(wanted)]
    return name, chosen


def write(netlist: Path, target: Path, plan: Plan | None, pins: Mapping[str, str] | None = None) -> None:
    """Copy ``netlist`` to ``target`` with ``pins`` and, if there is a plan, its fixed array and its settings."""
    if plan is None and not pins:
        target.unlink(missing_ok=True)
        try:
            os.link(netlist, target)
        except OSError:
            shutil.copy(netlist, target)
        return
    contents = json.loads(netlist.read_text())
    (module,) = (module for module in contents["modules"].values() if int(module["attributes"].get("top", "0"), 2))
    if plan:
        for cell, site in sites(module["cells"], plan).items():
            module["cells"][cell].setdefault("attributes", {})["BEL"] = site
        module["settings"] = dict(plan.settings)
    if pins:
        place_pins(module, pins)
    target.write_text(json.dumps(contents))
