"""Find points of a block's own Verilog, as a bench has it, in the accelerator's Verilog.

A block has the same statements alone and in the accelerator, with three differences: numbers in names that tools made
up, the order of statements, and simplifications by constants of the surroundings. A point is therefore identified by
its statement, with each made-up name replaced by the expression that is assigned to it.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from adagp.sim.coverage import TOGGLE, Point

__all__ = ["Statements", "pair"]

_MODULE = re.compile(r"module (\S+?)\s*\(")
_FUNCTION = re.compile(r"\s*function .*?(\w+) ?;$")
_CALL = re.compile(r"(\w+_\d+) \(.*\)")
_ASSIGN = re.compile(r"\s*assign (\S+)\s+= (.*);$")
_INSTANCE = re.compile(r"  (?:\\\S+|adagp\w*)\s+(\\?\S+)\s*\($")
_PORT = re.compile(r"\s*\.(\\?\w+\s?)\((.*)\),?$")
_MADE_UP = re.compile(
    r"\\\S*\$\d\S*|\b\w+_\d+_[A-Z]+\b|\b(?:[A-Z][a-z]+|procmux|make_patterns_logic|combine_resets|slice)_\d+\b"
)
_CLOCKING = re.compile(r"\b\w+_gated_(clk|rst)\b")
_UNKNOWN = "\0"
"""Stands in a statement for a made-up name that nothing explains."""


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Statements:
    """The statements of a text of Verilog, by module."""

    def __init__(self, text: Sequence[str]):
        self.text = text
        self._lines: dict[int, str] = {}
        self._definitions: dict[str, dict[str, str]] = {}
        module, instance, function = "", None, ""
        for number, line in enumerate(text, 1):
            if found := _FUNCTION.match(line):
                function = f"{found[1]} "
            self._lines[number] = function + line  # the cases of a function say nothing without it
            if line.endswith("endfunction"):
                function = ""
            if found := _MODULE.match(line):
                module = found[1].lstrip("\\")
                names = self._definitions[module] = {}
            elif found := _ASSIGN.match(line):
                names.setdefault(found[1], found[2])
                if call := _CALL.fullmatch(found[2].strip()):
                    names.setdefault(call[1], found[2].strip().removeprefix(call[1]))
            elif found := _INSTANCE.match(line):
                instance = re.sub(r"\$\d+", "", found[1])
            elif instance and (found := _PORT.match(line)):
                names.setdefault(found[2].strip(), f"{instance}.{found[1].strip()}")
            elif line == "  );":
                instance = None
        self._known: dict[tuple[str, str], str] = {}

    def _meaning(self, module: str, name: str) -> str:
        """The expression assigned to a made-up name; the name's stem if the module assigns none."""
        key = module, name
        if key not in self._known:
            self._known[key] = _UNKNOWN + re.sub(r"\d+", "", name)
            if (definition := self._definitions[module].get(name)) is not None:
                text = self._plain(module, definition)
                self._known[key] = _UNKNOWN * (_UNKNOWN in text) + _short(text)
        return self._known[key]

    def _plain(self, module: str, text: str) -> str:
        text = _MADE_UP.sub(lambda found: self._meaning(module, found[0]), text)
        return re.sub(r"\s+", " ", _CLOCKING.sub(r"core_\1", text)).strip()

    def key(self, point: Point) -> str:
        """The identity of a point wherever its module is: equal for statements that do the same with the same names."""
        if point.kind == TOGGLE:
            name = next((name for name in (point.name, f"\\{point.name}") if _MADE_UP.fullmatch(name)), None)
            return f"{point.bits} {self._meaning(point.module, name) if name else point.name}"
        line = self._lines[point.line]
        # The expression assigned to a made-up name identifies the statement, not the name.
        if found := _ASSIGN.match(line):
            target = self._plain(point.module, found[1]) if not _MADE_UP.fullmatch(found[1]) else ""
            line = f"{target} = {found[2]}"
        return f"{point.name} {self._plain(point.module, line)}"


def _by_key(statements: Statements, points: Iterable[Point], same: bool) -> Mapping[tuple[str, str], list[Point]]:
    found = defaultdict(list)
    for point in sorted(points, key=lambda point: (point.line, point.column)):
        key = f"{point.line} {point.column} {point.name}" if same else statements.key(point)
        found[point.kind, key].append(point)
    return found


def pair(
    theirs: Statements, their_points: Iterable[Point], ours: Statements, our_points: Iterable[Point]
) -> list[tuple[Point, Point]]:
    """Points of one module and those of another that are the same.

    In the same text, points match by their places. Otherwise they match by their statements, with two exceptions: a
    statement that occurs more often on one side, and several statements that may differ only in unknown names.
    """
    same = theirs.text == ours.text
    a, b = _by_key(theirs, their_points, same), _by_key(ours, our_points, same)
    return [
        both
        for key, points in a.items()
        if len(points) == len(b.get(key, ())) and (len(points) == 1 or _UNKNOWN not in key[1])
        for both in zip(points, b[key], strict=True)
    ]
