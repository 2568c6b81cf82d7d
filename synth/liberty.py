"""Liberty files: what is read of a library of standard cells besides what its tools read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import TargetError

__all__ = ["LIBERTY", "PROCESSES", "Library"]

LIBERTY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
PROCESSES = {"osu018_stdcells": 180.0}
"""Nanometres of the processes that are known, by library: Liberty files don't say them. Memories' figures need them."""

_CELL = re.compile(r'^\s*cell\s*\(\s*"?(\w+)"?\s*\)\s*\{', re.MULTILINE)
_AREA = re.compile(r'^\s*area\s*:\s*"?([\d.eE+-]+)"?\s*;', re.MULTILINE)
_FLIP_FLOP = re.compile(r"^\s*ff\s*\(", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r'^\s*library\s*\(\s*"?(\w+)"?\s*\)', re.MULTILINE)
_VOLTS = re.compile(r'\bnom_voltage\s*:\s*"?([\d.]+)', re.MULTILINE)
_UNIT = re.compile(r'capacitive_load_unit\s*\(\s*"?([\d.]+)"?\s*,\s*"?([pf])f"?\s*\)', re.IGNORECASE)
_PIN = re.compile(r'\bpin\s*\(\s*"?(\w+)"?\s*\)\s*\{')
_CAPACITANCE = re.compile(r'\bcapacitance\s*:\s*"?([\d.eE+-]+)')
_FUNCTION = re.compile(r'\bfunction\s*:\s*"([^"]*)"')


@dataclass(frozen=True)
class Library:
    """A Liberty file's cells: areas by name, farads by (cell, pin), and which are flip-flops.

    ``buffer`` is taken to drive inputs; ``load_unit``: farads; ``nm``, of the process, is None where it isn't known.
    Raises TargetError for one that lacks any other of these.
    """

    path: Path
    areas: Mapping[str, float] = field(init=False)
    farads: Mapping[tuple[str, str], float] = field(init=False)
    flip_flops: frozenset[str] = field(init=False)
    buffer: str = field(init=False)
    volts: float = field(init=False)
    load_unit: float = field(init=False)
    nm: float | None = field(init=False)

    def __post_init__(self):
        text = _COMMENT.sub("", self.path.read_text(errors="replace"))
        head, *pieces = _CELL.split(text)
        cells = dict(zip(pieces[::2], pieces[1::2], strict=True))
        if not cells:
            raise TargetError(f"{self.path} is no Liberty file: it has no cells")
        areas = {name: float(area[1]) for name, text in cells.items() if (area := _AREA.search(text))}
        if lacking := sorted(cells.keys() - areas.keys()):
            raise TargetError(f"{self.path} has no area of {len(lacking)} of its {len(cells)} cells, as {lacking[0]}")
        flip_flops = frozenset(name for name, text in cells.items() if _FLIP_FLOP.search(text))
        if not flip_flops:
            raise TargetError(f"{self.path} has no flip-flops: none of its {len(cells)} cells has an ff group")
        pins = {name: _pins(text) for name, text in cells.items()}
        buffers = sorted(name for name in cells.keys() - flip_flops if _is_buffer(pins[name]))
        if not buffers:
            raise TargetError(f"{self.path} has no buffers: no cell's output is its only input")
        volts, unit, title = _VOLTS.search(head), _UNIT.search(head), _NAME.search(head)
        if not volts or not unit:
            raise TargetError(f"{self.path} has no nom_voltage or no capacitive_load_unit in pF or fF")
        scale = float(unit[1]) * {"p": 1e-12, "f": 1e-15}[unit[2].lower()]
        found = {
            "areas": areas, "flip_flops": flip_flops, "buffer": buffers[0], "volts": float(volts[1]),
            "load_unit": scale, "nm": PROCESSES.get(title[1]) if title else None,
            "farads": {
                (cell, pin): float(value[1]) * scale for cell, texts in pins.items() for pin, text in texts.items()
                if (value := _CAPACITANCE.search(text))
            },
        }  # fmt: skip
        for key, figure in found.items():
            object.__setattr__(self, key, figure)


def _pins(cell):
    """What a cell's text says of each of its pins."""
    pieces = _PIN.split(cell)[1:]
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def _is_buffer(pins):
    functions = [found[1].strip(" ()") for text in pins.values() if (found := _FUNCTION.search(text))]
    return len(pins) == 2 and len(functions) == 1 and functions[0] in pins
