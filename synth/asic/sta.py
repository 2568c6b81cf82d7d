"""OpenSTA: timing of a netlist of standard cells."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from .. import process
from ..design import Design
from ..errors import ToolError
from ..netlist import Scopes
from ..yosys import TOP

if TYPE_CHECKING:
    from .liberty import Library

__all__ = ["Timing", "analyse", "sta_command"]

_STEP = re.compile(r"^\s*(-?[\d.]+)\s+(-?[\d.]+)\s+[v^]\s+(\w+)/(\w+) \((\w+)\)", re.MULTILINE)
_SLACK = re.compile(r"^\s*(-?[\d.]+)\s+slack \(", re.MULTILINE)
_ERROR = re.compile(r"^Error: .*$", re.MULTILINE)
_ANY = re.compile(r"^(\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Timing:
    """The highest frequency in MHz, and the critical path as (block, ns)."""

    fmax_mhz: float
    critical_path: list[dict]


class _Netlist:
    """A netlist in JSON as Verilog with short names: cells ``c0``, ``c1``, ..., nets ``n2``, ``n3``, ...

    Cells that the library lacks are memories. They are left out, and the nets that they drive become inputs.
    """

    def __init__(self, folder: Path, library: "Library", design: Design):
        module = json.loads((folder / "netlist.json").read_text())["modules"][TOP]
        self.name, self.library, self.root = design.name, library, design.scope(False)
        cells = ((name, cell) for name, cell in module["cells"].items() if cell["type"] in library.areas)
        self.cells = {f"c{number}": pair for number, pair in enumerate(cells)}
        self.clock = module["ports"]["clk"]["bits"][0]
        bits: dict[bool, set[int]] = {True: set(), False: set()}  # that are driven, and that are read
        for _, cell in self.cells.values():
            for pin, (bit,) in cell["connections"].items():
                if isinstance(bit, int):
                    bits[cell["port_directions"].get(pin) == "output"].add(bit)
        self.inputs, self.wires = sorted(bits[False] - bits[True] - {self.clock}), sorted(bits[True])

    def verilog(self) -> str:
        """Verilog of the module ``adagp``, whose clock is ``clk``."""
        inputs = ["clk", *map(self._net, self.inputs)]
        lines = [f"module {TOP} ({', '.join(inputs)});", *(f"input {name};" for name in inputs)]
        lines += [f"wire {self._net(bit)};" for bit in self.wires]
        for short, (_, cell) in self.cells.items():
            pins = (f".{pin}({self._net(bit)})" for pin, (bit,) in cell["connections"].items())
            lines.append(f"{cell['type']} {short} ({', '.join(pins)});")
        return "\n".join([*lines, "endmodule\n"])

    def _net(self, bit):
        if isinstance(bit, int):
            return "clk" if bit == self.clock else f"n{bit}"
        return "1'b1" if bit == "1" else "1'b0"


def sta_command() -> str:
    """The path of OpenSTA; raises ToolError where there is none."""
    tool = shutil.which("sta")
    if tool is None:
        raise ToolError("timing of cells needs OpenSTA, and sta was not found (Debian: apt install opensta)")
    return tool


def analyse(folder: Path, library: "Library", design: Design, say: process.Say = lambda _: None) -> Timing:
    """Timing of the netlist in ``folder`` between flip-flops, at the configuration's clock. Raises ToolError."""
    tool, period = sta_command(), 1e9 / design.config.clock_hz
    netlist = _Netlist(folder, library, design)
    script = (
        f"read_liberty {library.path.resolve()}", "read_verilog netlist.v", f"link_design {TOP}",
        f"create_clock -name clk -period {period:.6g} [get_ports clk]",
        "report_checks -path_delay max -digits 4", "exit\n",
    )  # fmt: skip
    with TemporaryDirectory() as scratch:
        here = Path(scratch)
        (here / "netlist.v").write_text(netlist.verilog())
        (here / "run.tcl").write_text("\n".join(script))
        say("OpenSTA")
        process.run([tool, "-no_splash", "-exit", "run.tcl"], here, here / "log.txt", _ANY, lambda _: None)
        log = (here / "log.txt").read_text()
    if wrong := _ERROR.search(log):
        raise ToolError(f"OpenSTA, on {design.name}: {wrong[0]}")
    if not (slacks := [float(slack) for slack in _SLACK.findall(log)]):
        raise ToolError(f"OpenSTA found no path in {design.name}: {' '.join(log.split())[-300:]}")
    path = _path(log, netlist, Scopes.read(folder, netlist.root))
    return Timing(round(1e3 / (period - min(slacks)), 2), path)


def _path(log, netlist, scopes):
    """The critical path as the blocks it goes through."""
    steps: list[dict] = []
    for delay, _, cell, _, _ in _STEP.findall(log):
        block = scopes.block(netlist.cells[cell][0])
        if not steps or steps[-1]["block"] != block:
            steps.append({"block": block, "cells": 0, "logic_ns": 0.0, "routing_ns": 0.0})
        steps[-1]["logic_ns"] = round(steps[-1]["logic_ns"] + float(delay), 3)
        steps[-1]["cells"] += 1
    return steps
