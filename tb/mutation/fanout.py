"""The fan-out of a break: the cells whose outputs may come to differ, by the RTLIL of both sides."""

import re
from collections import defaultdict

__all__ = ["affected"]

OUTPUTS = ("Y", "Q", "X", "CO")
"""Ports of Yosys' cells; memories have others."""

_CELL = re.compile(r"^  cell (\S+) (\S+)\n(.*?)^  end$", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"^    connect \\(\S+) (.*)$", re.MULTILINE)
_CONNECTION = re.compile(r"^  connect (\{.*?\}|\S+(?: \[[\d:]+\])*) (.*)$", re.MULTILINE)
_WIRE = re.compile(r"[\\$]\S+")


def _cells(text: str, module: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Cells of a module in RTLIL: type, and signals by port. Its own connections are cells from A to Y."""
    cells: dict[str, tuple[str, dict[str, str]]] = {}
    body = text.partition(f"\nmodule \\{module}\n")[2].partition("\nend\n")[0]
    for kind, cell, ports in _CELL.findall(body):
        cells[cell] = kind, dict(_PORT.findall(ports))
    for one, other in _CONNECTION.findall(body):
        cells[f"{one} = {other}"] = "", {"A": other, "Y": one}
    return cells


def affected(gold: str, gate: str) -> set[str]:
    """Names of the cells of "gate" whose outputs may come to differ from those of "gold", by their RTLIL.

    These are the cells that wires reach from the cells that differ. Paths end at memories and submodules, because
    their inputs are compared.
    """
    known, cells = _cells(gold, "gold"), _cells(gate, "gate")
    readers = defaultdict(list)
    for name, (_, ports) in cells.items():
        for port, signal in ports.items():
            if port not in OUTPUTS:
                for wire in _WIRE.findall(signal):
                    readers[wire].append(name)
    seen: set[str] = set()
    wanted = [name for name, cell in cells.items() if known.get(name) != cell]
    while wanted:
        name = wanted.pop()
        if name not in seen:
            seen.add(name)
            signals = [signal for port, signal in cells[name][1].items() if port in OUTPUTS]
            inside = not cells[name][0].startswith("\\")
            wanted += [reader for s in signals for wire in _WIRE.findall(s) for reader in readers[wire] if inside]
    return seen
