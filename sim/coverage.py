"""Points of coverage that a simulator's counters count, taken from the C++ that Verilator generates.

Verilator would register each of some 10^5 points by name whenever a simulation is opened, which takes seconds and as
long to compile; here they are listed once, when the simulator is built, and a simulation only counts.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

__all__ = ["LINE", "TOGGLE", "Point", "load", "n_counters", "plain", "save", "take"]

LINE, TOGGLE = "line", "toggle"
"""Kinds of points: a block or a branch, of a multiplexer too, that has been evaluated; a bit that has changed."""

_STRINGS = r'first, "[^"]*", (\d+), (\d+), "[^"]*", "v_(\w+)/([^"]*)", "([^"]*)"[^;]*\);\n'
_BLOCK = re.compile(rf" *vlSelf->__vlCoverInsert\(&\(vlSymsp->__Vcoverage\[(\d+)\]\), {_STRINGS}")
_TOGGLE = re.compile(
    rf" *vlSelf->__vlCoverToggleInsert\((\d+), (\d+), \d, &\(vlSymsp->__Vcoverage\[(\d+)\]\), {_STRINGS}"
)
_ESCAPE = re.compile("__0([0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Point:
    """A point of coverage: one counter, or for a toggle two for each bit.

    Parameters
    ----------
    kind: LINE (of a block or branch) or TOGGLE
    module, line, column: where it is in the Verilog; lines and columns from 1
    name: of a line which branch it is (if, else, cond_then, ...), of a toggle the signal
    counter: number of the first counter; a toggle's are falls and rises of bit 0, of bit 1, ...
    bits: width of a toggle's signal, 1 of a line
    """

    kind: str
    module: str
    line: int
    column: int
    name: str
    counter: int
    bits: int = 1

    @property
    def n_counters(self) -> int:
        return 2 * self.bits if self.kind == TOGGLE else 1


def plain(name: str) -> str:
    """The Verilog name of a C++ name, in which Verilator has escaped some characters."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)


def take(sources: Iterable[Path]) -> list[Point]:
    """The points of generated C++, by their counters; they are removed from the sources.

    Points may share counters, as a port does with what it is connected to. Raises ValueError for a counter without any.
    """
    found = []

    def block(match):
        counter, line, column, _, module, name = match.groups()
        found.append(Point(LINE, plain(module), int(line), int(column), name, int(counter)))
        return ""

    def toggle(match):
        first, last, counter, line, column, _, module, name = match.groups()
        bits = abs(int(last) - int(first)) + 1
        found.append(Point(TOGGLE, plain(module), int(line), int(column), plain(name), int(counter), bits))
        return ""

    for path in sources:
        text = path.read_text()
        if "__vlCover" in text:
            path.write_text(_TOGGLE.sub(toggle, _BLOCK.sub(block, text)))
    found.sort(key=lambda point: point.counter)
    end = 0
    for point in found:
        if point.counter > end:
            raise ValueError(f"counter {end} belongs to no point: the next is {point}")
        end = max(end, point.counter + point.n_counters)
    return found


def save(path: Path, points: Iterable[Point]) -> None:
    """Write points to a file."""
    path.write_text(json.dumps([astuple(point) for point in points]))


def load(path: Path) -> list[Point]:
    """The points of a file."""
    return [Point(*fields) for fields in json.loads(path.read_text())]


@cache
def n_counters(path: Path) -> int:
    """The number of counters that the points of a file have."""
    return max(point.counter + point.n_counters for point in load(path))
